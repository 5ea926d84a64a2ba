"""The JobInputs service: what agents ask, and tell, about the job's inputs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from hdfs_utils.errors import MalformedData
from hdfs_utils.validation.check_in_subprocess import CheckOutcome, parse
from yarnam.errors import YarnamError
from yarnam.ports.job_inputs import InputService, SuspectReport
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc as pb_grpc
from yarnam.wire.protocol import PROTOCOL

log = logging.getLogger("yarnam.inputs")

MAX_HOLD_S = 60.0
"""Longest poll granted; an agent asks again."""

MAX_SUSPECTS = 100
"""Reports per call; the rest is dropped. A job with more has another problem than single bad
files."""

MAX_TEXT = 500

EPOCH_THREADS = 4
"""Questions about epochs that wait for HDFS at the same time; the others wait for these."""


class GrpcInputEndpoint(pb_grpc.JobInputsServicer):
    """A ``ports.job_inputs.InputEndpoint``. Calls are served on the server's event loop; threads do
    what blocks."""

    def __init__(self) -> None:
        self._service: InputService | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: asyncio.Event | None = None
        self._threads = ThreadPoolExecutor(EPOCH_THREADS, thread_name_prefix="epochs")
        self._lock = threading.Lock()

    def open(self) -> None:
        """To be called on the event loop that serves."""
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._changed = asyncio.Event()

    def close(self) -> None:
        """Does not wait for a question under way: each has a limit of its own."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    # ---- the port ------------------------------------------------------------------------

    def serve(self, service: InputService) -> None:
        self._service = service
        self.wake()

    def excluded_now(self) -> Mapping[str, Sequence[str]]:
        """As of the service; nothing before there is one."""
        return self._service.excluded_now() if self._service is not None else {}

    def wake(self) -> None:
        with self._lock:
            loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = asyncio.Event()

    # ---- the agents' calls ---------------------------------------------------------------

    async def SettleEpoch(self, request: pb.EpochRequest, context: Any) -> pb.EpochReply:  # noqa: N802
        await _check_protocol(request.caller, context)
        service = self._service
        if service is None:
            # It is about to come: the agent asks again.
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the ApplicationMaster is starting")
            raise AssertionError("abort has returned")
        loop = asyncio.get_running_loop()
        try:
            excluded = await loop.run_in_executor(
                self._threads, service.settle, request.input, request.epoch
            )
        except YarnamError as error:
            return pb.EpochReply(problem=error.message)
        return pb.EpochReply(excluded_files=excluded)

    async def Suspect(self, request: pb.SuspectRequest, context: Any) -> pb.SuspectReply:  # noqa: N802
        await _check_protocol(request.caller, context)
        if self._service is not None:
            self._service.complain(request.caller.node, suspects_of(request.suspects))
        return pb.SuspectReply()

    async def AwaitCheck(self, request: pb.CheckRequest, context: Any) -> pb.CheckReply:  # noqa: N802
        await _check_protocol(request.caller, context)
        service, changed = self._service, self._changed
        if service is not None and request.done.order:
            service.checked(request.done.order, outcome_of(request.done.outcome_json))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(request.hold_ms / 1000.0, MAX_HOLD_S)
        while True:
            service, changed = self._service, self._changed
            check = service.next_check(request.caller.node) if service is not None else None
            if check is not None:
                return pb.CheckReply(order=check.number, uri=check.uri, limit_s=check.limit_s)
            left_s = deadline - loop.time()
            if left_s <= 0 or changed is None:
                return pb.CheckReply()
            try:
                await asyncio.wait_for(changed.wait(), left_s)
            except asyncio.TimeoutError:
                return pb.CheckReply()


async def _check_protocol(caller: pb.InputCaller, context: Any) -> None:
    if caller.protocol != PROTOCOL:
        await context.abort(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"the ApplicationMaster speaks protocol {PROTOCOL}, this agent {caller.protocol}",
        )


def suspects_of(suspects: Sequence[pb.SuspectInput]) -> list[SuspectReport]:
    """The agent's report, its texts cut to their limits."""
    return [
        SuspectReport(
            one.path[: 8 * MAX_TEXT],
            one.reason[:MAX_TEXT],
            max(1, one.times),
            one.first_record if one.HasField("first_record") else -1,
            one.last_record if one.HasField("last_record") else -1,
        )
        for one in suspects[:MAX_SUSPECTS]
        if one.path
    ]


def outcome_of(reply: bytes) -> CheckOutcome:
    """What makes no sense counts as no check."""
    try:
        return parse(reply.decode())
    except (MalformedData, UnicodeDecodeError) as error:
        log.warning("an outcome that makes no sense: %s: %.200r", error, reply)
        return CheckOutcome("not checked", "check-failed", "the agent's answer makes no sense")
