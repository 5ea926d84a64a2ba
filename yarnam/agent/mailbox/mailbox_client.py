"""The agent's calls to the AM."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

import grpc

from yarnam.agent.mailbox.am_search import FIRST_SEARCH_S, Absence, AmSighting, search_pause_s
from yarnam.agent.mailbox.directive_messages import NumberedDirective, decode_directive
from yarnam.agent.mailbox.wake_listener import WakeListener
from yarnam.errors import WireMismatch
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc
from yarnam.wire.protocol import HOLD_S, PROTOCOL
from yarnam.wire.tls import CHANNEL_OPTIONS, channel_credentials, rpc_failure

ANSWER_LIMIT_S = 3.0
"""Longest wait for the answer to a long poll, after it has been held."""

REPORT_LIMIT_S = 5.0
"""Longest wait for a report's acknowledgement."""

RETRY_FIRST_S, RETRY_CAP_S = 0.1, 1.0

_LOG = logging.getLogger("yarnam.agent")

T = TypeVar("T")

# Answers that no retry changes.
_FATAL = (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED)


class AmVanished(Exception):
    """No AM has been reached for longer than the limit."""


class AmLimits(NamedTuple):
    """How long the agent waits for an AM that does not answer, in seconds. See ``Absence``."""

    orphan_s: float
    absence_s: float = 0.0


async def _see_nothing() -> AmSighting | None:
    return None


class MailboxClient:
    """Calls are repeated until they succeed, at the next AM where ``find_am`` finds one, or until
    none has answered for longer than the limits (AmVanished). Raises WireMismatch when the AM
    refuses this version.

    ``wake``: by which the AM may say that it has a directive. ``take_tokens`` is given delegation
    tokens that replace the container's. ``find_am`` finds the AM that the job's directory names;
    ``found`` is called with the address of one that is later than ``am_attempt``."""

    def __init__(
        self,
        address: str,
        pem: bytes,
        ask: str,
        container: str,
        limits: AmLimits,
        wake: WakeListener,
        take_tokens: Callable[[Sequence[str]], None] = lambda _: None,
        *,
        am_attempt: int = 1,
        find_am: Callable[[], Awaitable[AmSighting | None]] = _see_nothing,
        found: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._pem = pem
        self._connect(address)
        self._am_attempt = am_attempt
        self._find_am = find_am
        self._found = found
        self._search: asyncio.Task[None] | None = None
        self._confirmed_at_s = 0.0
        self._ask = ask
        self._container = container
        self._limits = limits
        self._wake = wake
        self._hold_s = HOLD_S
        self._take_tokens = take_tokens
        self._tokens = 0
        """The number of those it was given last."""
        self._poll_after_s = 0.0
        self._heard_at: float | None = None
        self._is_away = False

    async def report(self, report: pb.AgentReport) -> None:
        """Returns when the AM has acknowledged it."""

        async def call(limit_s: float) -> None:
            await self._stub.Report(report, timeout=limit_s)

        await self._until_answered(call, REPORT_LIMIT_S)

    async def await_directive(
        self, seen: int, progress: Callable[[], pb.Progress | None] = lambda: None
    ) -> NumberedDirective:
        """The directive now, or the same again when the poll has been held. The agent of a large
        gang does not poll before it is woken, or some seconds have passed. ``progress`` makes what
        each call takes along; ``None``: nothing."""
        is_woken = self._poll_after_s > 0 and self._wake.is_heard
        hold_s = 0.0 if is_woken else self._hold_s
        if is_woken:
            await self._wake.wait(seen, self._poll_after_s)
        request = pb.DirectiveRequest(
            protocol=PROTOCOL,
            ask=self._ask,
            container=self._container,
            seen=seen,
            hold_ms=int(hold_s * 1000),
            tokens=self._tokens,
        )

        async def call(limit_s: float) -> pb.Directive:
            newest = progress()
            request.ClearField("progress")
            if newest is not None:
                request.progress.CopyFrom(newest)
            directive: pb.Directive = await self._stub.AwaitDirective(request, timeout=limit_s)
            return directive

        directive = await self._until_answered(call, self._hold_s + ANSWER_LIMIT_S)
        decoded = decode_directive(directive)
        if directive.HasField("tokens"):
            self._tokens = directive.tokens.number
            self._take_tokens(tuple(directive.tokens.tokens))
        if directive.launch.hold_ms:
            self._hold_s = directive.launch.hold_ms / 1000
        self._pace_polls(directive, seen)
        return decoded

    def _pace_polls(self, directive: pb.Directive, seen: int) -> None:
        whole_s = directive.poll_after_ms / 1000
        self._poll_after_s = whole_s
        if directive.number != seen:
            self._wake.has_come(directive.number)
            # All agents got it at the same time: their polls shall not come all together.
            self._poll_after_s = whole_s * random.random()  # noqa: S311

    async def close(self) -> None:
        if self._search is not None:
            self._search.cancel()
        await self._channel.close(grace=None)

    def _connect(self, address: str) -> None:
        self._channel = grpc.aio.secure_channel(
            address, channel_credentials(self._pem), options=CHANNEL_OPTIONS
        )
        self._stub = yarnam_pb2_grpc.TaskMailboxStub(self._channel)  # type: ignore[no-untyped-call]
        self._address = address

    async def _until_answered(self, call: Callable[[float], Awaitable[T]], limit_s: float) -> T:
        loop = asyncio.get_running_loop()
        if self._heard_at is None:
            self._heard_at = loop.time()
        # Not hdfs_utils' retry: to load it takes 30 ms of CPU, a tenth of an agent's start.
        wait_s = RETRY_FIRST_S
        whole_s = limit_s
        failures = 0
        while True:
            try:
                answer = await call(limit_s)
            except grpc.aio.AioRpcError as error:
                failures += 1
                self._note_away(error)
                if error.code() in _FATAL:
                    raise WireMismatch(
                        f"the AM at {self._address} refuses this agent: {rpc_failure(error)}",
                        hint="Both come from the job's runtime archive: submit the job again.",
                    ) from error
            else:
                self._note_back()
                return answer
            silent_s = loop.time() - self._heard_at
            absence = Absence(self._heard_at, self._confirmed_at_s)
            left_s = absence.ends_at_s(*self._limits) - loop.time()
            # Twice: after a suspended machine wakes up the first failure says nothing.
            if left_s <= 0 and failures > 1:
                raise AmVanished(f"the AM at {self._address} has not answered for {silent_s:.0f} s")
            if self._search is None and silent_s >= FIRST_SEARCH_S and self._limits.absence_s > 0:
                self._search = asyncio.create_task(self._search_am())
            left_s = max(RETRY_FIRST_S, left_s)
            limit_s = min(whole_s, max(1.0, left_s))
            await asyncio.sleep(min(wait_s, left_s))
            wait_s = min(RETRY_CAP_S, wait_s * 2)

    async def _search_am(self) -> None:
        """Look until an AM answers, or another one is found."""
        loop = asyncio.get_running_loop()
        attempt = self._am_attempt
        try:
            while self._is_away and self._am_attempt == attempt:
                began_at_s = loop.time()
                try:
                    seen = await self._find_am()
                except OSError as error:
                    _LOG.warning("cannot look for the AM: %s", error)
                    seen = None
                if seen is not None:
                    self._take_sighting(seen, began_at_s)
                silent_s = loop.time() - (self._heard_at or began_at_s)
                # The agents of a node look at different times.
                await asyncio.sleep(search_pause_s(silent_s) * (0.5 + random.random()))  # noqa: S311
        finally:
            self._search = None

    def _take_sighting(self, seen: AmSighting, at_s: float) -> None:
        if seen.am_attempt > self._am_attempt:
            _LOG.warning("attempt %d of the AM is at %s", seen.am_attempt, seen.address)
            self._am_attempt = seen.am_attempt
            # A call to the one before ends at its own limit.
            self._connect(seen.address)
            # The numbers of another AM.
            self._tokens = 0
            self._found(seen.address)
        elif not seen.is_last:
            self._confirmed_at_s = at_s

    def _note_away(self, error: grpc.aio.AioRpcError) -> None:
        if not self._is_away:
            self._is_away = True
            _LOG.warning(
                "cannot reach the AM at %s: %s; trying for %.0f s, and for %.0f s while the job's "
                "directory names no other one",
                self._address,
                rpc_failure(error),
                *self._limits,
            )

    def _note_back(self) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        if self._is_away:
            self._is_away = False
            _LOG.warning("the AM at %s answers again", self._address)
