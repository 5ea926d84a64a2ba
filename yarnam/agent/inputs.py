"""The agent's part in the care of inputs: answers for the training processes, looks for the AM.

Training processes ask over a Unix socket (JSON lines): which files an epoch leaves out, and they
complain of records. What the AM has answered once is kept: an epoch's list never changes. Files
that the AM wants looked at are checked in a process of their own, one at a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
from collections.abc import Callable
from typing import Any

import grpc

from yarnam.agent.mailbox_client import RETRY_CAP_S, RETRY_FIRST_S
from yarnam.agent.settings import Settings
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc
from yarnam.wire.protocol import PROTOCOL
from yarnam.wire.tls import CHANNEL_OPTIONS, channel_credentials

_LOG = logging.getLogger("yarnam.agent")

EPOCH_CALL_LIMIT_S = 60.0
"""The AM may have to look at HDFS first, and to write the list down."""
CALL_LIMIT_S = 10.0
ASK_LIMIT_S = 115.0
"""For an answer to a training process, less than it waits for."""
HOLD_S = 20.0
"""Of one poll for something to look at."""
MAX_LINE = 64 * 1024
MAX_WAITING = 1000
"""Files complained of that the AM has not heard of yet; further ones are dropped."""
CHECK_MEMORY = 512 << 20
"""Resident bytes of a look, in the container of the training: most need some 60 MiB."""

_UNREACHABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


class InputCare:
    """``other_python``: of the training code, asked for where a library for a format is missing."""

    def __init__(self, settings: Settings, pem: bytes, other_python: Callable[[], str]) -> None:
        self._settings = settings
        self._other_python = other_python
        self._name = f"yarnam-inputs-{os.urandom(12).hex()}"
        self._channel = grpc.aio.secure_channel(
            settings.am_address, channel_credentials(pem), options=CHANNEL_OPTIONS
        )
        self._stub = yarnam_pb2_grpc.JobInputsStub(self._channel)  # type: ignore[no-untyped-call]
        self._lists: dict[tuple[str, int], list[str]] = {}
        self._waiting: dict[str, pb.SuspectInput] = {}
        self._has_news = asyncio.Event()
        self._server: asyncio.AbstractServer | None = None

    @property
    def address(self) -> str:
        """For YARNAM_INPUTS_SOCKET: ``@`` stands for the leading zero byte."""
        return f"@{self._name}"

    async def open(self) -> None:
        """Serve training processes from now on."""
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(f"\0{self._name}")
        self._server = await asyncio.start_unix_server(self._serve, sock=listening, limit=MAX_LINE)

    async def run(self) -> None:
        """Pass complaints on, and look at what the AM wants looked at, for ever. What goes wrong
        here is no reason to stop a training."""
        ends = await asyncio.gather(self._pass_on(), self._take_work(), return_exceptions=True)
        for end in ends:
            _LOG.error("the care of inputs has ended", exc_info=end)

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
                answer = await self._answer(line)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError) as error:
            _LOG.info("a training process's question: %s", error)
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            question = json.loads(line)
            kind = question["ask"]
            if kind == "left-out":
                return await self._left_out(str(question["input"]), int(question["epoch"]))
            if kind == "suspect":
                self._note(question["suspects"])
                return {}
        except (KeyError, TypeError, ValueError) as error:
            return {"error": f"a question that makes no sense: {error!r}"}
        return {"error": f"no such question: {kind!r}"}

    async def _left_out(self, name: str, epoch: int) -> dict[str, Any]:
        if (name, epoch) in self._lists:
            return {"left_out": self._lists[name, epoch]}
        request = pb.EpochRequest(caller=self._caller(), input=name, epoch=epoch)
        try:
            reply = await asyncio.wait_for(
                self._until_answered(
                    lambda: self._stub.SettleEpoch(request, timeout=EPOCH_CALL_LIMIT_S)
                ),
                ASK_LIMIT_S,
            )
        except asyncio.TimeoutError:
            return {"error": f"the ApplicationMaster has not answered within {ASK_LIMIT_S:g} s"}
        except grpc.aio.AioRpcError as error:
            return {"error": f"the ApplicationMaster refuses to answer: {error.details()}"}
        if reply.problem:
            return {"error": reply.problem}
        self._lists[name, epoch] = list(reply.left_out)
        return {"left_out": self._lists[name, epoch]}

    def _note(self, suspects: list[dict[str, Any]]) -> None:
        for told in suspects:
            path = str(told["path"])
            known = self._waiting.get(path)
            if known is None and len(self._waiting) >= MAX_WAITING:
                continue
            one = known or pb.SuspectInput(path=path, reason=str(told["reason"])[:500])
            one.times += int(told.get("times", 1))
            for record in (told.get("first"), told.get("last")):
                if record is not None:
                    low = one.first_record if one.HasField("first_record") else record
                    one.first_record = min(low, record)
                    one.last_record = max(one.last_record, record)
            self._waiting[path] = one
        self._has_news.set()

    # ---- the AM --------------------------------------------------------------------------

    def _caller(self) -> pb.InputCaller:
        settings = self._settings
        return pb.InputCaller(
            protocol=PROTOCOL,
            ask=str(settings.ask),
            container=settings.container,
            node=settings.node,
        )

    async def _pass_on(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            told, self._waiting = self._waiting, {}
            request = pb.SuspectRequest(caller=self._caller(), suspects=list(told.values()))

            def call(request: pb.SuspectRequest = request) -> Any:
                return self._stub.Suspect(request, timeout=CALL_LIMIT_S)

            await self._until_answered(call)

    async def _take_work(self) -> None:
        done: pb.CheckDone | None = None
        while True:
            request = pb.CheckRequest(caller=self._caller(), done=done, hold_ms=int(HOLD_S * 1000))

            def call(request: pb.CheckRequest = request) -> Any:
                return self._stub.AwaitCheck(request, timeout=HOLD_S + CALL_LIMIT_S)

            work = await self._until_answered(call)
            done = None
            if work.order:
                _LOG.info("looking at %s for the ApplicationMaster", work.uri)
                outcome = await asyncio.to_thread(self._look, work.uri, work.limit_s)
                done = pb.CheckDone(order=work.order, outcome_json=outcome.encode())

    def _look(self, uri: str, limit_s: float) -> str:
        # Loaded with the first look: most agents never take one.
        from hdfs_utils.apart import check_apart

        other = self._other_python()
        return check_apart(
            uri, limit_s=limit_s, python=[other] if other else [], max_memory=CHECK_MEMORY
        )

    async def _until_answered(self, call: Callable[[], Any]) -> Any:
        """Again while the AM cannot be reached: the agent's own heart tells when to give it up."""
        wait_s = RETRY_FIRST_S
        while True:
            try:
                return await call()
            except grpc.aio.AioRpcError as error:
                if error.code() not in _UNREACHABLE:
                    raise
            await asyncio.sleep(wait_s)
            wait_s = min(RETRY_CAP_S, wait_s * 2)


def _is_ours(writer: asyncio.StreamWriter) -> bool:
    """Anybody on the machine can connect to an abstract name, so the kernel is asked who did."""
    link = writer.get_extra_info("socket")
    told = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(told)[1]) == os.getuid()
