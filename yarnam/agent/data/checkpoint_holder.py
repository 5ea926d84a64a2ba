"""Runs the holder of the container's checkpoints in memory (``hdfs_utils.checkpoints.memory``), a
program beside the agent: it outlives the processes that train, and ends with the agent."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import Mapping
from contextlib import suppress

from yarnam.agent.data.own_programs import start_program
from yarnam.core.model.job_spec import COPIES_SHARE
from yarnam.errors import Unavailable
from yarnam.wire.protocol import ENV_COPY_HOLDERS, ENV_COPY_PEER, TLS_NAME

_LOG = logging.getLogger("yarnam.agent")

MODULE = "hdfs_utils.checkpoints.memory.memory_holder"

BACKLOG = 64
CLOSE_S = 1.0


class CheckpointHolder:
    """The holder of one container. ``memory_bytes``: the container's memory; ``pem``: the job's
    credentials; ``env``: the container's environment."""

    def __init__(self, address: str, memory_bytes: int, pem: bytes, env: Mapping[str, str]) -> None:
        """Raises Unavailable if it cannot listen."""
        self._memory_bytes = memory_bytes
        self._pem = pem
        self._env = dict(env)
        self._process: asyncio.subprocess.Process | None = None
        self.address = ""
        """For the processes: ``@`` stands for a leading zero byte; empty if no holder runs."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._server = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._server.bind((address, 0))
            self._server.listen(BACKLOG)
        except OSError as error:
            self._server.close()
            raise Unavailable(f"cannot listen on {address}: {error}") from error
        self.port = int(self._server.getsockname()[1])

    async def begin_launch(self, env: Mapping[str, str]) -> None:
        """``env``: of one process of the launch, as the AM made it. A holder that has ended is
        started again; without one the processes read and write HDFS alone."""
        peer = env.get(ENV_COPY_PEER, "")
        holders = [one for one in env.get(ENV_COPY_HOLDERS, "").split(",") if one]
        try:
            if self._process is None or self._process.returncode is not None:
                await self._start()
            await self._send({"peer": peer, "others": [one for one in holders if one != peer]})
        except OSError as error:
            self.address = ""
            _LOG.warning("checkpoints are not kept in memory: %s", error)
            return
        if peer:
            _LOG.info("copies of checkpoints go to %s", peer)
        else:
            _LOG.warning("no copies of checkpoints: all tasks of the gang are on this node")

    async def _start(self) -> None:
        name = f"yarnam-{os.urandom(12).hex()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as local:
            local.bind(f"\0{name}")
            local.listen(BACKLOG)
            fds = (local.fileno(), self._server.fileno())
            self._process = await start_program(
                MODULE, env=self._env, stdin=asyncio.subprocess.PIPE, pass_fds=fds
            )
        self.address = f"@{name}"
        await self._send({
            "unix_fd": fds[0],
            "tcp_fd": fds[1],
            "pem": self._pem.decode(),
            "tls_name": TLS_NAME,
            "container_bytes": self._memory_bytes,
            "limit_bytes": int(self._memory_bytes * COPIES_SHARE),
            "root_pid": os.getpid(),
        })  # fmt: skip

    async def _send(self, message: Mapping[str, object]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(message)}\n".encode())
        await self._process.stdin.drain()

    async def close(self) -> None:
        """The copies end with it."""
        self._server.close()
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), CLOSE_S)
