"""The AM's gRPC server: the mailbox of the agents, and the control service of the clients.

Everything runs on one asyncio loop in one thread of its own. A parked agent is a suspended call,
not a thread. The methods of the port may be called from any thread; they are carried out on the
loop, in the order they were called.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
import time
import zlib
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from typing import Any, TypeVar

import grpc
import grpc.aio

from yarnam.adapters.grpc.agent_session import AgentSession
from yarnam.adapters.grpc.agent_sessions import AgentSessions
from yarnam.adapters.grpc.check_messages import check_order
from yarnam.adapters.grpc.gang_stop_step import GangStopStep
from yarnam.adapters.grpc.job_control import MAX_HOLD_MS, JobControlService
from yarnam.adapters.grpc.job_inputs import GrpcInputEndpoint
from yarnam.adapters.grpc.session_relay import SessionRelay
from yarnam.adapters.grpc.wake_sender import WakeSender
from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.frameworks.gang_table import first_ranks
from yarnam.core.model.actions import AdoptGang, CheckNodes, GangMember
from yarnam.core.model.events import AgentSilent, AgentUnable
from yarnam.core.model.ids import AskId, parse_ask_id
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.metrics import AgentMetrics
from yarnam.core.model.resources import split_gpus
from yarnam.errors import InternalError, Unavailable
from yarnam.ports import AgentStaging, Inbox
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc as pb_grpc
from yarnam.wire.protocol import PROTOCOL, report_pace
from yarnam.wire.rendezvous import environments, in_common
from yarnam.wire.tls import SERVER_OPTIONS, server_credentials

T = TypeVar("T")

CALL_TIMEOUT_S = 5.0
"""For a port's method to be carried out on the loop; each takes microseconds there."""

WAKE_AT_ONCE, WAKE_PAUSE_S = 50, 0.02
"""So many agents are answered at a time, with a pause (seconds) before the next ones: a launch of
1,000 tasks names all hosts to each, 10 MB in all, and the answers would lie in memory together."""

SILENCE_TICK_S = 0.5
"""How often the agents' silence is looked at."""

ABSENCE_S = 2.0
"""A tick later than this means that the AM itself was away (suspended, swapped out): the agents'
silence meanwhile does not count."""


ADOPTION_LIMIT_S = 30.0
"""For the agents of an earlier AM attempt to find this one. They look every 15 s at least
(``yarnam.agent.mailbox.am_search``)."""

LEAVE_NUMBER = (1 << 63) - 1
"""The number of the directive for agents without a session, larger than all that they have seen."""


class GrpcMailbox(pb_grpc.TaskMailboxServicer):
    """A ``ports.TaskMailbox`` over gRPC with mutual TLS by the job's own certificate."""

    def __init__(
        self,
        job: JobSpec,
        credentials_pem: bytes,
        *,
        host: str,
        application: str = "",
        am_attempt: int = 1,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """``host``: this node's name or address as other nodes know it (NM_HOST)."""
        self._job = job
        self._silence_s = job.am.agent_silence_s
        pace = report_pace(job.tasks, has_first_rank=False, silence_s=self._silence_s)
        self._wake_sender = WakeSender()
        self._credentials = credentials_pem
        self._host = host
        self._application = application
        self._now_s = now_s
        self.control = JobControlService(now_s)
        self.inputs = GrpcInputEndpoint()
        self.relay = SessionRelay(self._address_of, credentials_pem, now_s)
        self.address = ""
        """host:port once it listens."""
        self._sessions = AgentSessions(pace.poll_after_s, am_attempt)
        self._changed: dict[str, asyncio.Event] = {}
        self._inbox: Inbox = lambda event: None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve_loop, name="mailbox", daemon=True)
        self._server: Any = None
        self._ticker: asyncio.Task[None] | None = None
        self._stop_step = GangStopStep()
        self._tokens = pb.Tokens()
        """What agents with another number get; 0 means those with which YARN starts them."""
        self._is_closed = False

    # ---- the port ------------------------------------------------------------------------

    def start(self, inbox: Inbox) -> str:
        self._inbox = inbox
        self._thread.start()
        port = self._await(self._open())
        self.address = f"[{self._host}]:{port}" if ":" in self._host else f"{self._host}:{port}"
        return self.address

    def expect(self, asks: Iterable[AskId]) -> None:
        wanted = tuple(asks)
        self._do(lambda: self._sessions.expect(wanted))

    def adopt(self, action: AdoptGang) -> None:
        launched, shared = self._launch_orders(action.attempt, action.members)
        asks = {task.ask for task in action.tasks} - set(action.waiting)
        orders = [(ask, pb.Directive(launch=order)) for ask, order in launched if ask in asks]
        until = time.monotonic() + ADOPTION_LIMIT_S - self._silence_s

        def adopt() -> None:
            self._sessions.adopt(action.tasks, action.attempt, until)
            self._give(orders, shared)

        self._do(adopt)

    def check(self, action: CheckNodes) -> None:
        self._order_all(
            (one.ask, pb.Directive(check=check_order(action, one))) for one in action.nodes
        )

    def prepare(self, attempt: int, members: Sequence[GangMember]) -> None:
        orders, shared = self._launch_orders(attempt, members)
        self._order_all(((ask, pb.Directive(prepare=order)) for ask, order in orders), shared)

    def launch(
        self, attempt: int, members: Sequence[GangMember], waiting: Collection[AskId] = ()
    ) -> None:
        orders, shared = self._launch_orders(attempt, members)
        now = (one for one in orders if one[0] not in waiting)
        self._order_all(((ask, pb.Directive(launch=order)) for ask, order in now), shared)

    def _launch_orders(
        self, attempt: int, members: Sequence[GangMember]
    ) -> tuple[list[tuple[AskId, pb.Launch]], bytes]:
        """What each agent is to launch, without the environment that all have alike; and that,
        packed."""
        gang = tuple(members)
        job = with_excluded(self._job, self.inputs.excluded_now())
        envs = environments(job, gang, attempt, self._application)
        shared = in_common(envs)
        ranks = first_ranks(gang)
        orders = []
        for member, first, env in zip(gang, ranks, envs, strict=True):
            own = [{k: v for k, v in one.items() if k not in shared} for one in env]
            order = _launch_order(member, attempt, first, own)
            pace = report_pace(len(gang), has_first_rank=first == 0, silence_s=self._silence_s)
            order.hold_ms = round(pace.hold_s * 1000)
            order.metrics_period_ms = round(pace.metrics_period_s * 1000)
            if job.resizes_in_place and first == 0:
                order.members.extend(f"{one.ask}:{one.placed.processes}" for one in gang)
            orders.append((member.ask, order))
        return orders, _packed(shared)

    def stop(
        self,
        ask: AskId,
        attempt: int,
        grace_s: float,
        reason: str,
        idle_grace_s: float | None = None,
        agreeing: int = 0,
    ) -> None:
        order = pb.Stop(attempt=attempt, grace_s=grace_s, reason=reason, idle_grace_s=idle_grace_s)
        order.agree = agreeing > 0

        def give() -> None:
            self._stop_step.begin(ask, attempt, agreeing)
            self._give([(ask, pb.Directive(stop=order))])

        self._begin(give)

    def dump(self, asks: Iterable[AskId], attempt: int) -> None:
        order = pb.Dump(attempt=attempt)
        self._order_all([(ask, pb.Directive(dump=order)) for ask in asks])

    def dismiss(self, asks: Iterable[AskId]) -> None:
        order = pb.Leave(reason="released")
        self._order_all((ask, pb.Directive(leave=order)) for ask in asks)

    def hand_out(self, tokens: Sequence[str]) -> None:
        """Give these delegation tokens to all agents, those of later containers included.
        Thread-safe, also before ``start``; returns immediately."""
        self._tokens = pb.Tokens(number=self._tokens.number + 1, tokens=tokens)
        if self._thread.is_alive():
            asks = tuple(str(session.ask) for session in self._sessions)
            self._loop.call_soon_threadsafe(self._wake_in_turn, asks)

    def drain(self, limit_s: float) -> int:
        return self._await(self._drain(limit_s), limit_s + CALL_TIMEOUT_S)

    def metrics(self) -> Sequence[AgentMetrics]:
        """Read without asking the loop: copies of dicts that only the loop's thread writes."""
        return self._sessions.metrics()

    def activity(self) -> Sequence[RankActivity]:
        return self._sessions.activity(self._now_s())

    def staging(self) -> Sequence[AgentStaging]:
        return self._sessions.staging()

    def close(self) -> None:
        if self._is_closed or not self._thread.is_alive():
            return
        self._is_closed = True
        try:
            self._await(self._shut())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CALL_TIMEOUT_S)
            self.control.close()
            self.inputs.close()

    # ---- the agents' calls ---------------------------------------------------------------

    async def Report(self, request: pb.AgentReport, context: Any) -> pb.ReportAck:  # noqa: N802
        session = await self._session_of(request, context)
        if session is not None and not session.is_dismissed:
            for event in session.report(request, self._now_s()):
                self._inbox(event)
            if request.HasField("stop_step"):
                self._take_stop_step(session.ask, request)
        if session is not None and session.take_wake(request):
            self._wake(request.ask)  # a trial: it holds its polls if it does not hear this
        return pb.ReportAck()

    def _take_stop_step(self, ask: AskId, report: pb.AgentReport) -> None:
        least = report.stop_step.step if report.stop_step.HasField("step") else None
        if not self._stop_step.take(ask, report.attempt, least):
            return
        step, orders = self._stop_step.step, []
        for member in self._stop_step.members:
            session = self._sessions.get(member)
            if session is None or session.directive.WhichOneof("order") != "stop":
                continue
            order = pb.Stop()
            order.CopyFrom(session.directive.stop)
            order.agree = False
            if step is not None:
                order.at_step = step
            orders.append((member, pb.Directive(stop=order)))
        self._give(orders)

    async def AwaitDirective(self, request: pb.DirectiveRequest, context: Any) -> pb.Directive:  # noqa: N802
        session = await self._session_of(request, context)
        hold_s = min(request.hold_ms, MAX_HOLD_MS) / 1000.0
        if session is None:
            if request.seen == LEAVE_NUMBER:
                await asyncio.sleep(hold_s)
            leave = pb.Leave(reason="the job does not expect you")
            return pb.Directive(number=LEAVE_NUMBER, leave=leave)
        if request.HasField("progress"):
            session.see(request.progress, self._now_s())
        if session.forgot(request.seen):
            text = "its agent was started again in its container: its processes are lost"
            self._inbox(AgentUnable(self._now_s(), session.ask, text))
        deadline = self._loop.time() + hold_s
        while (
            session.directive.number == request.seen
            and self._tokens.number == request.tokens
            and self._loop.time() < deadline
        ):
            # Not wait_for, which makes a task for each: of a large gang polls are most of the work.
            changed = self._changed.setdefault(str(session.ask), asyncio.Event())
            timer = self._loop.call_at(deadline, self._wake, str(session.ask))
            try:
                await changed.wait()
            finally:
                timer.cancel()
        if session.announced < session.directive.number:
            self._announce(session)  # before the reply: else the agent takes it that none arrive
        session.delivered = max(session.delivered, session.directive.number)
        return self._with_tokens(session.reply(), request.tokens)

    def _with_tokens(self, directive: pb.Directive, number: int) -> pb.Directive:
        if self._tokens.number == number:
            return directive
        reply = pb.Directive()
        reply.CopyFrom(directive)
        reply.tokens.CopyFrom(self._tokens)
        return reply

    async def _session_of(self, request: Any, context: Any) -> AgentSession | None:
        """The session of the calling agent; None when it has none here. Counts as a heartbeat."""
        if request.protocol != PROTOCOL:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"the ApplicationMaster speaks protocol {PROTOCOL}, this agent {request.protocol}",
            )
        try:
            parse_ask_id(request.ask)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        session = self._sessions.get(request.ask)
        if session is None or not session.heard(request.container, time.monotonic()):
            return None
        return session

    def _address_of(self, ask: str) -> str:
        """Where the agent of this task listens; empty if it has none now."""
        session = self._sessions.get(ask)
        return "" if session is None or session.is_dismissed else session.agent_address

    # ---- on the loop ---------------------------------------------------------------------

    async def _open(self) -> int:
        server = grpc.aio.server(options=SERVER_OPTIONS)
        pb_grpc.add_TaskMailboxServicer_to_server(self, server)  # type: ignore[no-untyped-call]
        pb_grpc.add_JobControlServicer_to_server(self.control, server)  # type: ignore[no-untyped-call]
        pb_grpc.add_JobInputsServicer_to_server(self.inputs, server)  # type: ignore[no-untyped-call]
        pb_grpc.add_TaskSessionsServicer_to_server(self.relay, server)  # type: ignore[no-untyped-call]
        address = bind_address(self._host)
        credentials = server_credentials(self._credentials)
        try:
            port = server.add_secure_port(f"{address}:0", credentials)
        except RuntimeError as error:
            raise Unavailable(f"cannot listen on {address} ({self._host}): {error}") from error
        self.control.open(self._inbox)
        self.inputs.open()
        self.relay.open(self._inbox)
        await server.start()
        self._server = server
        self._ticker = self._loop.create_task(self._watch_silence())
        return int(port)

    async def _shut(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        if self._server is not None:
            await self._server.stop(0.2)
        self._wake_sender.close()

    def _order_all(
        self,
        orders: Iterable[tuple[AskId, pb.Directive]],
        shared_env: bytes = b"",
    ) -> None:
        given = tuple(orders)
        self._do(lambda: self._give(given, shared_env))

    def _give(self, orders: Iterable[tuple[AskId, pb.Directive]], shared_env: bytes = b"") -> None:
        """On the loop."""
        changed = []
        for ask, directive in orders:
            session = self._sessions.get(ask)
            if session is not None and session.order(directive, shared_env):
                changed.append(str(ask))
        self._wake_in_turn(changed)

    def _wake_in_turn(self, changed: Sequence[str]) -> None:
        for name in changed[:WAKE_AT_ONCE]:
            self._wake(name)
        for number, name in enumerate(changed[WAKE_AT_ONCE:], WAKE_AT_ONCE):
            self._loop.call_later(number // WAKE_AT_ONCE * WAKE_PAUSE_S, self._wake, name)

    def _wake(self, ask: str) -> None:
        """Answer the call that waits; else say to the agent that it should call."""
        changed = self._changed.pop(ask, None)
        session = self._sessions.get(ask)
        if changed is not None:
            changed.set()
        elif session is not None:
            self._announce(session)

    def _announce(self, session: AgentSession) -> None:
        if session.wake is not None:
            session.announced = session.directive.number
            self._wake_sender.send(session.wake, session.announced)

    async def _drain(self, limit_s: float) -> int:
        deadline = self._loop.time() + limit_s
        while True:
            waiting = sum(
                session.is_dismissed and not session.has_left for session in self._sessions
            )
            if not waiting or self._loop.time() >= deadline:
                return waiting
            await asyncio.sleep(0.02)

    async def _watch_silence(self) -> None:
        limit_s = self._silence_s
        last = time.monotonic()
        while True:
            await asyncio.sleep(SILENCE_TICK_S)
            now = time.monotonic()
            if now - last > ABSENCE_S:
                for session in self._sessions:
                    if session.heard_at is not None:
                        session.heard_at += now - last
            last = now
            for session in self._sessions:
                silent_s = session.silent_for(now, limit_s)
                if silent_s is not None:
                    self._inbox(AgentSilent(self._now_s(), session.ask, silent_s))
                if session.is_to_wake(now, limit_s):
                    self._wake(str(session.ask))  # the datagram was lost, or the agent is slow
            for ask in self._sessions.drop_over(now, limit_s):
                self._wake(ask)  # a call that was held for it may have been cut off

    # ---- between threads -----------------------------------------------------------------

    def _serve_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _begin(self, act: Callable[[], None]) -> None:
        """Without waiting: a gang is stopped by one call for each task, and for each of them the
        loop of a large gang would be busy with calls of agents first."""
        if not self._thread.is_alive():
            raise InternalError("the mailbox is not open")
        self._loop.call_soon_threadsafe(act)

    def _do(self, act: Callable[[], T]) -> T:
        async def run() -> T:
            return act()

        return self._await(run())

    def _await(self, work: Coroutine[Any, Any, T], timeout_s: float = CALL_TIMEOUT_S) -> T:
        if not self._thread.is_alive():
            work.close()
            raise InternalError("the mailbox is not open")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except FutureTimeout as error:
            raise InternalError(f"the mailbox's loop did not answer in {timeout_s:g} s") from error


def with_excluded(job: JobSpec, excluded: Mapping[str, Sequence[str]]) -> JobSpec:
    """The job, with these files excluded from its inputs besides those of its submit."""
    inputs = tuple(
        replace(given, skipped=tuple(sorted({*given.skipped, *excluded.get(given.name, ())})))
        for given in job.inputs
    )
    return replace(job, inputs=inputs)


def _packed(shared_env: Mapping[str, str]) -> bytes:
    """Empty for none. It names each host several times: of 1,000 tasks it has 11 kB, and each
    agent's connection would keep buffers of that size."""
    if not shared_env:
        return b""
    message = pb.SharedEnvironment(env=shared_env)
    return zlib.compress(message.SerializeToString(deterministic=True))


def _launch_order(
    member: GangMember, attempt: int, first_rank: int, envs: Sequence[dict[str, str]]
) -> pb.Launch:
    shares = split_gpus(member.placed.gpu_ids, len(envs))
    return pb.Launch(
        attempt=attempt,
        role=member.task.role,
        index=member.task.index,
        processes=[
            pb.ProcessLaunch(rank=first_rank + local, local_rank=local, env=env, gpu_ids=gpus)
            for local, (env, gpus) in enumerate(zip(envs, shares, strict=True))
        ],
    )


def bind_address(host: str) -> str:
    """Where to listen, given the name by which other nodes know this one: that address alone where
    it is one of this node's; all interfaces where the name leads to loopback, as some hosts files
    have it for the node's own name (callers need the job's certificate in any case)."""
    try:
        return _bracketed(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
        address = ipaddress.ip_address(str(found[0][4][0]))
    except (OSError, ValueError):
        return "0.0.0.0"  # noqa: S104 - see above
    return "0.0.0.0" if address.is_loopback else _bracketed(address)  # noqa: S104 - see above


def _bracketed(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    return f"[{address}]" if address.version == 6 else str(address)
