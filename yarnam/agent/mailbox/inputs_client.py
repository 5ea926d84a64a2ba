"""The agent's calls to the AM where the job's inputs are concerned."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple, TypeVar

import grpc

from yarnam._light_imports import on_first_use
from yarnam.agent.mailbox.mailbox_client import RETRY_CAP_S, RETRY_FIRST_S
from yarnam.agent.task_config import ContainerSettings
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc
from yarnam.wire.protocol import PROTOCOL
from yarnam.wire.tls import CHANNEL_OPTIONS, channel_credentials

with on_first_use():  # most agents do without
    from hdfs_utils.concurrency import retry

EPOCH_CALL_LIMIT_S = 60.0
"""The AM may have to read the blacklist on HDFS first, and to write the list down."""
CALL_LIMIT_S = 10.0
HOLD_S = 20.0
"""How long the AM may hold one poll for a file to check."""

_UNREACHABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

T = TypeVar("T")


class Suspect(NamedTuple):
    """What training processes say of a file. ``records``: the first and the last, if they know."""

    path: str
    reason: str
    times: int = 1
    records: tuple[int, ...] = ()


class FileToCheck(NamedTuple):
    """``order`` 0: there is nothing to check."""

    order: int
    uri: str
    limit_s: float


class CheckOutcome(NamedTuple):
    order: int
    outcome_json: str


class InputsClient:
    """Calls are repeated while the AM cannot be reached: the mailbox's heartbeat decides when to
    give up. They raise grpc.aio.AioRpcError when the AM refuses them."""

    def __init__(
        self, settings: ContainerSettings, pem: bytes, *, protocol: int = PROTOCOL
    ) -> None:
        self._pem = pem
        self.connect(settings.am_address)
        self._caller = pb.InputCaller(
            protocol=protocol,
            ask=str(settings.ask),
            container=settings.container,
            node=settings.node,
        )

    def connect(self, address: str) -> None:
        """Call this AM from now on. A call to another one ends at its own limit."""
        self._channel = grpc.aio.secure_channel(
            address, channel_credentials(self._pem), options=CHANNEL_OPTIONS
        )
        self._stub = yarnam_pb2_grpc.JobInputsStub(self._channel)  # type: ignore[no-untyped-call]

    async def settle_epoch(self, name: str, epoch: int) -> tuple[list[str], str]:
        """The files that this epoch excludes; and why there is no answer, if there is none."""
        request = pb.EpochRequest(caller=self._caller, input=name, epoch=epoch)

        async def call() -> pb.EpochReply:
            reply: pb.EpochReply = await self._stub.SettleEpoch(request, timeout=EPOCH_CALL_LIMIT_S)
            return reply

        reply = await _until_answered(call)
        return list(reply.excluded_files), reply.problem

    async def suspect(self, suspects: Iterable[Suspect]) -> None:
        request = pb.SuspectRequest(caller=self._caller, suspects=map(_suspect, suspects))

        async def call() -> None:
            await self._stub.Suspect(request, timeout=CALL_LIMIT_S)

        await _until_answered(call)

    async def await_check(self, done: CheckOutcome | None) -> FileToCheck:
        """Returns when the AM has a file to check, or has held the call. ``done``: the outcome of
        the last check."""
        request = pb.CheckRequest(caller=self._caller, hold_ms=int(HOLD_S * 1000))
        if done is not None:
            request.done.order = done.order
            request.done.outcome_json = done.outcome_json.encode()

        async def call() -> pb.CheckReply:
            reply: pb.CheckReply = await self._stub.AwaitCheck(
                request, timeout=HOLD_S + CALL_LIMIT_S
            )
            return reply

        reply = await _until_answered(call)
        return FileToCheck(reply.order, reply.uri, reply.limit_s)

    async def close(self) -> None:
        await self._channel.close(grace=None)


def _suspect(one: Suspect) -> pb.SuspectInput:
    return pb.SuspectInput(
        path=one.path,
        reason=one.reason,
        times=one.times,
        first_record=min(one.records, default=None),
        last_record=max(one.records, default=None),
    )


async def _until_answered(call: Callable[[], Awaitable[T]]) -> T:
    def is_unreachable(error: Exception) -> bool:
        return isinstance(error, grpc.aio.AioRpcError) and error.code() in _UNREACHABLE

    backoff = retry.Backoff(RETRY_FIRST_S, RETRY_CAP_S)
    return await retry.retry_async(
        call, math.inf, is_retriable=is_unreachable, backoff=backoff, sleep=asyncio.sleep
    )
