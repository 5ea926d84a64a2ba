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
import math
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import Record, decode_record, shown
from yarnam._light_imports import on_first_use
from yarnam.agent.mailbox.mailbox_client import RETRY_CAP_S, RETRY_FIRST_S
from yarnam.agent.task_config import ContainerSettings
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc
from yarnam.wire.protocol import PROTOCOL
from yarnam.wire.tls import CHANNEL_OPTIONS, channel_credentials

with on_first_use():  # most agents do without what these load
    from hdfs_utils.concurrency import retry
    from hdfs_utils.validation import check_in_subprocess

_LOG = logging.getLogger("yarnam.agent")

EPOCH_CALL_LIMIT_S = 60.0
"""The AM may have to read the blacklist on HDFS first, and to write the list down."""
CALL_LIMIT_S = 10.0
REPLY_LIMIT_S = 115.0
"""For a reply to a training process: less than ``yarnam.train`` waits for."""
HOLD_S = 20.0
"""How long the AM may hold one poll for a file to check."""
MAX_LINE = 64 * 1024
MAX_WAITING = 1000
"""Suspect files that were not reported to the AM yet; further ones are dropped."""
MAX_PATH = 8192
MAX_REASON = 500
MAX_TIMES = (1 << 32) - 1
MAX_EPOCH = (1 << 32) - 1
"""What a message to the AM holds."""
CHECK_MEMORY = 512 << 20
"""Resident bytes of a check, in the container of the training: most need some 60 MiB."""

_UNREACHABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


@dataclass(frozen=True, slots=True)
class Suspect:
    """What a training process says of a file. ``records``: the first and the last, if it knows."""

    path: str
    reason: str
    times: int = 1
    records: tuple[int, ...] = ()


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
    the agent's own Python has no library; empty: there is none."""

    def __init__(
        self,
        settings: ContainerSettings,
        pem: bytes,
        other_python: Callable[[], str],
        *,
        protocol: int = PROTOCOL,
    ) -> None:
        self._settings = settings
        self._protocol = protocol
        self._other_python = other_python
        self._name = f"yarnam-inputs-{os.urandom(12).hex()}"
        self._channel = grpc.aio.secure_channel(
            settings.am_address, channel_credentials(pem), options=CHANNEL_OPTIONS
        )
        self._stub = yarnam_pb2_grpc.JobInputsStub(self._channel)  # type: ignore[no-untyped-call]
        self._lists: dict[tuple[str, int], list[str]] = {}
        self._waiting: dict[str, pb.SuspectInput] = {}
        self._has_suspects = asyncio.Event()
        self._server: asyncio.AbstractServer | None = None

    @property
    def address(self) -> str:
        """For the SDK: ``@`` stands for the leading zero byte."""
        return f"@{self._name}"

    async def open(self) -> None:
        """Serve training processes from now on."""
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(f"\0{self._name}")
        self._server = await asyncio.start_unix_server(self._serve, sock=listening, limit=MAX_LINE)

    async def run(self) -> None:
        """Forward suspects and run the checks that the AM wants, for ever. What goes wrong here is
        no reason to stop a training."""
        ends = await asyncio.gather(self._forward(), self._run_checks(), return_exceptions=True)
        for end in ends:
            _LOG.error("the input gateway has ended", exc_info=end)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._channel.close(grace=None)

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

    async def _reply(self, line: bytes) -> dict[str, Any]:
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

    async def _excluded_files(self, name: str, epoch: int) -> dict[str, Any]:
        if (name, epoch) in self._lists:
            return {"excluded": self._lists[name, epoch]}
        request = pb.EpochRequest(caller=self._caller(), input=name, epoch=epoch)
        try:
            reply = await asyncio.wait_for(
                self._until_answered(
                    lambda: self._stub.SettleEpoch(request, timeout=EPOCH_CALL_LIMIT_S)
                ),
                REPLY_LIMIT_S,
            )
        except asyncio.TimeoutError:
            return {"error": f"no reply from the ApplicationMaster within {REPLY_LIMIT_S:g} s"}
        except grpc.aio.AioRpcError as error:
            return {"error": f"the ApplicationMaster refuses the request: {error.details()}"}
        if reply.problem:
            return {"error": reply.problem}
        self._lists[name, epoch] = list(reply.excluded_files)
        return {"excluded": self._lists[name, epoch]}

    def _add_suspects(self, suspects: list[Suspect]) -> None:
        for found in suspects:
            known = self._waiting.get(found.path)
            if known is None and len(self._waiting) >= MAX_WAITING:
                continue
            one = known or pb.SuspectInput(path=found.path, reason=found.reason)
            one.times = min(one.times + found.times, MAX_TIMES)
            for record in found.records:
                low = one.first_record if one.HasField("first_record") else record
                one.first_record = min(low, record)
                one.last_record = max(one.last_record, record)
            self._waiting[found.path] = one
        self._has_suspects.set()

    # ---- the AM --------------------------------------------------------------------------

    def _caller(self) -> pb.InputCaller:
        settings = self._settings
        return pb.InputCaller(
            protocol=self._protocol,
            ask=str(settings.ask),
            container=settings.container,
            node=settings.node,
        )

    async def _forward(self) -> None:
        while True:
            await self._has_suspects.wait()
            self._has_suspects.clear()
            waiting, self._waiting = self._waiting, {}
            request = pb.SuspectRequest(caller=self._caller(), suspects=list(waiting.values()))

            def call(request: pb.SuspectRequest = request) -> Any:
                return self._stub.Suspect(request, timeout=CALL_LIMIT_S)

            await self._until_answered(call)

    async def _run_checks(self) -> None:
        done: pb.CheckDone | None = None
        while True:
            request = pb.CheckRequest(caller=self._caller(), done=done, hold_ms=int(HOLD_S * 1000))

            def call(request: pb.CheckRequest = request) -> Any:
                return self._stub.AwaitCheck(request, timeout=HOLD_S + CALL_LIMIT_S)

            work = await self._until_answered(call)
            done = None
            if work.order:
                _LOG.info("checking %s for the ApplicationMaster", work.uri)
                outcome = await asyncio.to_thread(self._check, work.uri, work.limit_s)
                done = pb.CheckDone(order=work.order, outcome_json=outcome.encode())

    def _check(self, uri: str, limit_s: float) -> str:
        other = self._other_python()
        return check_in_subprocess.check_in_subprocess(
            uri, limit_s=limit_s, python=[other] if other else [], max_memory=CHECK_MEMORY
        )

    async def _until_answered(self, call: Callable[[], Any]) -> Any:
        """Again while the AM cannot be reached: the mailbox's heartbeat decides when to give up."""

        def is_unreachable(error: Exception) -> bool:
            return isinstance(error, grpc.aio.AioRpcError) and error.code() in _UNREACHABLE

        backoff = retry.Backoff(RETRY_FIRST_S, RETRY_CAP_S)
        return await retry.retry_async(
            call, math.inf, is_retriable=is_unreachable, backoff=backoff, sleep=asyncio.sleep
        )


def _is_ours(writer: asyncio.StreamWriter) -> bool:
    """Anybody on the machine can connect to an abstract name; the kernel knows who did."""
    link = writer.get_extra_info("socket")
    peer = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(peer)[1]) == os.getuid()
