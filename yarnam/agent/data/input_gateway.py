"""Between the training processes and the AM where inputs are concerned.

Training processes send requests over a Unix socket (JSON lines): they fetch the list of files that
an epoch excludes, and report suspect records. A list is kept once the AM has sent it: an epoch's
list never changes. Files that the AM wants checked are checked in a process of their own, one at a
time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
from collections.abc import Callable

import grpc

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import Record, decode_record, shown
from yarnam._light_imports import on_first_use
from yarnam.agent.mailbox.inputs_client import CheckOutcome, InputsClient, Suspect
from yarnam.agent.task_config import ContainerSettings
from yarnam.wire.protocol import PROTOCOL
from yarnam.wire.tls import rpc_failure

with on_first_use():  # most agents do without what these load
    from hdfs_utils.validation import check_in_subprocess

_LOG = logging.getLogger("yarnam.agent")

REPLY_LIMIT_S = 115.0
"""For a reply to a training process: less than ``yarnam.train`` waits for."""
MAX_LINE = 64 * 1024
MAX_WAITING = 1000
"""Suspect files that were not reported to the AM yet; further ones are dropped."""
MAX_PATH = 8192
MAX_REASON = 500
MAX_TIMES = (1 << 32) - 1
MAX_EPOCH = (1 << 32) - 1
"""The limits of a message to the AM."""
CHECK_MEMORY = 512 << 20
"""Resident bytes of a check, in the container of the training: most need some 60 MiB."""

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


def suspects_in(request: Record) -> list[Suspect]:
    """Raises MalformedData."""
    return [
        Suspect(
            one.text("path", max_length=MAX_PATH),
            one.text("reason", max_length=MAX_LINE)[:MAX_REASON],
            one.integer("times", most=MAX_TIMES, default=1),
            tuple(one.integer(key) for key in ("first", "last") if key in one),
        )
        for one in request.records("suspects", max_count=MAX_WAITING)
    ]


class InputGateway:
    """``other_python()`` is the interpreter of the training code, used to check a format for which
    the agent's own Python has no library; empty if there is none."""

    def __init__(
        self,
        settings: ContainerSettings,
        pem: bytes,
        other_python: Callable[[], str],
        *,
        protocol: int = PROTOCOL,
    ) -> None:
        self._other_python = other_python
        self._name = f"yarnam-inputs-{os.urandom(12).hex()}"
        self._client = InputsClient(settings, pem, protocol=protocol)
        self._lists: dict[tuple[str, int], list[str]] = {}
        self._waiting: dict[str, Suspect] = {}
        self._has_suspects = asyncio.Event()
        self._server: asyncio.AbstractServer | None = None

    @property
    def address(self) -> str:
        """For the SDK: ``@`` stands for the leading zero byte."""
        return f"@{self._name}"

    def connect(self, address: str) -> None:
        """The AM is at this address from now on."""
        self._client.connect(address)

    async def open(self) -> None:
        """Serve training processes from now on."""
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(f"\0{self._name}")
        self._server = await asyncio.start_unix_server(self._serve, sock=listening, limit=MAX_LINE)

    async def run(self) -> None:
        """Forward suspects and run the checks that the AM wants, for ever. A failure here
        never stops a training."""
        ends = await asyncio.gather(self._forward(), self._run_checks(), return_exceptions=True)
        for end in ends:
            _LOG.error("the input gateway has ended", exc_info=end)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._client.close()

    # ---- training processes --------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not _is_ours(writer):
                return
            while line := await reader.readline():
                reply = await self._reply(line)
                writer.write(json.dumps(reply).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError) as error:
            _LOG.info("a request of a training process: %s", error)
        finally:
            writer.close()

    async def _reply(self, line: bytes) -> dict[str, object]:
        try:
            request = decode_record(line, max_bytes=MAX_LINE)
            kind = request.text("request")
            if kind == "excluded-files":
                name, epoch = request.text("input"), request.integer("epoch", most=MAX_EPOCH)
                return await self._excluded_files(name, epoch)
            if kind == "suspects":
                self._add_suspects(suspects_in(request))
                return {}
        except MalformedData as error:
            return {"error": f"not a valid request: {error.message}"}
        return {"error": f"unknown request: {shown(kind)}"}

    async def _excluded_files(self, name: str, epoch: int) -> dict[str, object]:
        if (name, epoch) in self._lists:
            return {"excluded": self._lists[name, epoch]}
        try:
            excluded, problem = await asyncio.wait_for(
                self._client.settle_epoch(name, epoch), REPLY_LIMIT_S
            )
        except asyncio.TimeoutError:
            return {"error": f"no reply from the ApplicationMaster within {REPLY_LIMIT_S:g} s"}
        except grpc.aio.AioRpcError as error:
            return {"error": f"the ApplicationMaster refuses the request: {rpc_failure(error)}"}
        if problem:
            return {"error": problem}
        self._lists[name, epoch] = excluded
        return {"excluded": excluded}

    def _add_suspects(self, suspects: list[Suspect]) -> None:
        for found in suspects:
            known = self._waiting.get(found.path)
            if known is None and len(self._waiting) >= MAX_WAITING:
                continue
            one = known or Suspect(found.path, found.reason, 0)
            records = (*one.records, *found.records)
            self._waiting[found.path] = one._replace(
                times=min(one.times + found.times, MAX_TIMES),
                records=(min(records), max(records)) if records else (),
            )
        self._has_suspects.set()

    # ---- the AM --------------------------------------------------------------------------

    async def _forward(self) -> None:
        while True:
            await self._has_suspects.wait()
            self._has_suspects.clear()
            waiting, self._waiting = self._waiting, {}
            await self._client.suspect(waiting.values())

    async def _run_checks(self) -> None:
        done: CheckOutcome | None = None
        while True:
            work = await self._client.await_check(done)
            done = None
            if work.order:
                _LOG.info("checking %s for the ApplicationMaster", work.uri)
                outcome = await asyncio.to_thread(self._check, work.uri, work.limit_s)
                done = CheckOutcome(work.order, outcome)

    def _check(self, uri: str, limit_s: float) -> str:
        other = self._other_python()
        return check_in_subprocess.check_in_subprocess(
            uri, limit_s=limit_s, python=[other] if other else [], max_memory=CHECK_MEMORY
        )


def _is_ours(writer: asyncio.StreamWriter) -> bool:
    """Anybody on the machine can connect to an abstract name; the kernel knows who did."""
    link = writer.get_extra_info("socket")
    peer = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(peer)[1]) == os.getuid()
