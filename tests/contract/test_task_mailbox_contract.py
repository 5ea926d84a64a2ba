"""One contract for the agents' mailbox: the fake, and the real one over gRPC with TLS."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import grpc
import pytest

from tests.fakes.task_mailbox import FakeMailbox
from yarnam.adapters.grpc import am_server
from yarnam.adapters.grpc.am_server import GrpcMailbox
from yarnam.agent.mailbox.directive_messages import share_environment
from yarnam.agent.mailbox.mailbox_client import AmLimits, MailboxClient
from yarnam.agent.mailbox.wake_listener import WakeListener
from yarnam.core.model.actions import (
    AdoptedTask,
    AdoptGang,
    CheckedNode,
    CheckNodes,
    CheckPeer,
    GangMember,
)
from yarnam.core.model.events import (
    AgentRegistered,
    AgentSilent,
    AgentUnable,
    Event,
    GroupFormed,
    NodeChecked,
    TaskExited,
    TaskFailing,
    TaskReady,
    TaskStaged,
    TaskStarted,
)
from yarnam.core.model.ids import AskId, ContainerId, NodeId, RackId, TaskId
from yarnam.core.model.job_spec import AmSpec, ElasticSpec, JobSpec, RoleSpec
from yarnam.core.model.outcomes import ExitKind, NodeMeasures
from yarnam.core.model.plans import Placed
from yarnam.core.model.resources import Resources
from yarnam.ports import AgentStaging, TaskMailbox
from yarnam.wire.credentials import new_credentials
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc as pb_grpc
from yarnam.wire.protocol import HELD_CALLS, PROTOCOL, number_in_wake
from yarnam.wire.tls import CHANNEL_OPTIONS, channel_credentials

JOB = JobSpec(
    name="j",
    queue="root.a",
    user="u",
    framework="command",
    roles=(RoleSpec("worker", 2, Resources(512, 1, 2), ("train",), processes_per_task=2),),
    am=AmSpec(agent_silence_s=1.0),
)
A, B, STRANGER = AskId(1, "worker", 0), AskId(1, "worker", 1), AskId(7, "worker", 9)
CALL_S = 5.0


class Agents(Protocol):
    """The agents' side, as far as both mailboxes have one."""

    mailbox: TaskMailbox

    def register(self, ask: AskId) -> None: ...
    def checked(self, ask: AskId, check: int) -> None: ...
    def staged(self, ask: AskId) -> None: ...
    def started(self, ask: AskId) -> None: ...
    def failing(self, ask: AskId, code: int) -> None: ...
    def exited(self, ask: AskId, code: int) -> None: ...
    def unable(self, ask: AskId) -> None: ...
    def order(self, ask: AskId) -> str: ...


class FakeAgents:
    def __init__(self, events: list[Event]) -> None:
        self.mailbox = FakeMailbox()
        self.mailbox.start(events.append)

    def register(self, ask: AskId) -> None:
        self.mailbox.register(ask, "n1")

    def checked(self, ask: AskId, check: int) -> None:
        self.mailbox.checked(ask, 1, check)

    def staged(self, ask: AskId) -> None:
        self.mailbox.staged(ask, 1)

    def started(self, ask: AskId) -> None:
        self.mailbox.started(ask, 1)

    def failing(self, ask: AskId, code: int) -> None:
        self.mailbox.failing(ask, 1, code)

    def exited(self, ask: AskId, code: int) -> None:
        self.mailbox.exited(ask, 1, code)

    def unable(self, ask: AskId) -> None:
        self.mailbox.unable(ask, "no lease")

    def order(self, ask: AskId) -> str:
        return self.mailbox.orders.get(ask, "leave")

    def close(self) -> None:
        self.mailbox.close()


class GrpcAgents:
    """Real calls, as the agent makes them."""

    def __init__(self, events: list[Event], job: JobSpec = JOB, am_attempt: int = 1) -> None:
        pem = new_credentials()
        self.pem = pem
        self.mailbox = GrpcMailbox(
            job, pem, host="127.0.0.1", application="application_1_1", am_attempt=am_attempt
        )
        self.address = self.mailbox.start(events.append)
        self.channel = grpc.secure_channel(self.address, channel_credentials(pem), CHANNEL_OPTIONS)
        self.stub = pb_grpc.TaskMailboxStub(self.channel)  # type: ignore[no-untyped-call]
        self.seen: dict[AskId, int] = {}

    def register(self, ask: AskId) -> None:
        self.report(ask, pb.READY)

    def checked(self, ask: AskId, check: int) -> None:
        found = pb.CheckReport(check=check, cpu_mib_s=100.0, memory_mib_s=1000.0, disk_mib_s=10.0)
        self.report(ask, pb.CHECKED, attempt=1, check=found)
        self.report(ask, pb.CHECKED, attempt=1, check=found)

    def staged(self, ask: AskId) -> None:
        self.report(ask, pb.STAGED, attempt=1)

    def started(self, ask: AskId) -> None:
        self.report(ask, pb.STARTED, attempt=1)

    def failing(self, ask: AskId, code: int) -> None:
        kind = ExitKind.NON_ZERO.value
        failed = pb.ProcessReport(local_rank=0, rank=0, ended=True, kind=kind, code=code)
        left = pb.ProcessReport(local_rank=1, rank=1)
        self.report(ask, pb.STARTED, attempt=1, processes=[failed, left])
        self.report(ask, pb.STARTED, attempt=1, processes=[failed, left])

    def exited(self, ask: AskId, code: int) -> None:
        kind = ExitKind.NON_ZERO if code else ExitKind.OK
        process = pb.ProcessReport(local_rank=0, rank=0, ended=True, kind=kind.value, code=code)
        self.report(ask, pb.EXITED, attempt=1, processes=[process])

    def unable(self, ask: AskId) -> None:
        self.report(ask, pb.UNABLE, message="no lease")

    def report(self, ask: AskId, state: int, container: str = "", **fields: object) -> None:
        ports = [pb.NamedPort(name="coordinator", port=4000 + ask.number)]
        report = pb.AgentReport(
            protocol=PROTOCOL, ask=str(ask), container=container or f"container_{ask}", node="n1",
            address="addr", gpu_ids=["0", "1"], ports=ports, state=state, **fields,
        )  # fmt: skip
        self.stub.Report(report, timeout=CALL_S)

    def directive(
        self,
        ask: AskId,
        seen: int | None = None,
        hold_ms: int = 0,
        container: str = "",
        tokens: int = 0,
        progress: pb.Progress | None = None,
    ) -> pb.Directive:
        request = pb.DirectiveRequest(
            protocol=PROTOCOL,
            ask=str(ask),
            container=container or f"container_{ask}",
            seen=self.seen.get(ask, 0) if seen is None else seen,
            hold_ms=hold_ms,
            tokens=tokens,
            progress=progress,
        )
        answer = self.stub.AwaitDirective(request, timeout=CALL_S)
        self.seen[ask] = answer.number
        share_environment(answer)
        return answer

    def order(self, ask: AskId) -> str:
        return str(self.directive(ask).WhichOneof("order"))

    def until_held(self, calls: int) -> None:
        """So many agents' calls have come and wait at the server."""
        wait_for(lambda: len(self.mailbox._changed) == calls)

    def close(self) -> None:
        self.channel.close()
        self.mailbox.close()


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture(params=["fake", pytest.param("grpc", marks=pytest.mark.grpc)])
def agents(request: pytest.FixtureRequest, events: list[Event]) -> Iterator[Agents]:
    made: FakeAgents | GrpcAgents
    made = FakeAgents(events) if request.param == "fake" else GrpcAgents(events)
    yield made
    made.close()


@pytest.fixture
def real(events: list[Event]) -> Iterator[GrpcAgents]:
    made = GrpcAgents(events)
    yield made
    made.close()


def member(ask: AskId, gpu_ids: tuple[str, ...] = ("0", "1")) -> GangMember:
    placed = Placed(
        role="worker",
        node=NodeId("n1"),
        rack=RackId("/r1"),
        gpu_ids=gpu_ids,
        processes=2,
        address="addr",
        ports=(("coordinator", 4000 + ask.number),),
    )
    return GangMember(ask, TaskId("worker", ask.number), placed)


def wait_for(condition: Callable[[], bool], limit_s: float = 5.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


def adoption(*, waiting: tuple[AskId, ...] = (), **how: bool) -> AdoptGang:
    tasks = tuple(
        AdoptedTask(ask, ContainerId(f"container_{ask}"), NodeId("n1"), **how)
        for ask in (A, B)
        if ask not in waiting
    )
    left = tuple(AdoptedTask(ask, ContainerId(f"container_{ask}"), NodeId("n1")) for ask in waiting)
    return AdoptGang(1, (member(A), member(B)), waiting, (*tasks, *left))


# ---- both -------------------------------------------------------------------------------------


def test_an_expected_agent_registers_and_is_parked(agents: Agents, events: list[Event]) -> None:
    agents.mailbox.expect([A])
    agents.register(A)
    (event,) = events
    assert isinstance(event, AgentRegistered)
    assert (event.ask, event.container, event.node) == (A, f"container_{A}", "n1")
    assert dict(event.ports) == {"coordinator": 4000}
    assert agents.order(A) == "park"


def test_an_unexpected_agent_is_told_to_leave_and_not_reported(
    agents: Agents, events: list[Event]
) -> None:
    agents.mailbox.expect([A])
    agents.register(STRANGER)
    assert agents.order(STRANGER) == "leave"
    assert events == []


def test_launch_reaches_every_member(agents: Agents, events: list[Event]) -> None:
    agents.mailbox.expect([A, B])
    agents.register(A)
    agents.register(B)
    agents.mailbox.launch(1, [member(A), member(B)])
    agents.mailbox.launch(1, [member(A), member(B)])
    assert (agents.order(A), agents.order(B)) == ("launch", "launch")
    agents.started(A)
    agents.exited(A, 3)
    assert [type(event) for event in events[2:]] == [TaskStarted, TaskExited]
    last = events[-1]
    assert isinstance(last, TaskExited)
    assert [(one.kind, one.code) for one in last.exits] == [(ExitKind.NON_ZERO, 3)]


def test_nodes_are_checked_before_that(agents: Agents, events: list[Event]) -> None:
    agents.mailbox.expect([A, B])
    agents.register(A)
    agents.register(B)
    peers = [CheckPeer(NodeId("n1"), "n1:1"), CheckPeer(NodeId("n2"), "n2:1")]
    asked = (CheckedNode(A, peers[0].node, (peers[1],)), CheckedNode(B, peers[1].node, (peers[0],)))
    agents.mailbox.check(CheckNodes(1, 7, is_full=False, limit_s=10.0, nodes=asked))
    assert (agents.order(A), agents.order(B)) == ("check", "check")
    agents.checked(A, 7)
    assert events[2:] == [NodeChecked(events[2].at_s, A, 1, 7, NodeMeasures(100.0, 1000.0, 10.0))]
    agents.mailbox.launch(1, [member(A), member(B)])
    assert agents.order(A) == "launch"


def test_only_the_check_that_was_ordered_is_answered(real: GrpcAgents, events: list[Event]) -> None:
    real.mailbox.expect([A])
    real.register(A)
    real.checked(A, 3)
    peer = CheckPeer(NodeId("n2"), "n2:1")
    nodes = (CheckedNode(A, NodeId("n1"), (peer,)),)
    real.mailbox.check(CheckNodes(1, 7, is_full=True, limit_s=60.0, nodes=nodes))
    order = real.directive(A).check
    assert (order.check, order.full, order.limit_s) == (7, True, 60.0)
    assert [(one.node, one.address) for one in order.peers] == [("n2", "n2:1")]
    real.checked(A, 6)
    assert len(events) == 1
    links = [pb.LinkReport(node="n2", mib_s=float("nan"), rtt_ms=-1.0, failure="x\x1b[2J" * 999)]
    wild = pb.CheckReport(check=7, cpu_mib_s=float("inf"), links=links * 99, trouble=["y" * 9999])
    real.report(A, pb.CHECKED, attempt=1, check=wild)
    event = events[-1]
    assert isinstance(event, NodeChecked)
    found = event.measures
    assert (found.cpu_mib_s, found.links[0].mib_s, found.links[0].rtt_ms) == (0.0, 0.0, 0.0)
    assert (len(found.links), len(found.links[0].failure) <= 300) == (8, True)
    assert "\x1b" not in found.links[0].failure
    assert len(found.trouble[0]) <= 300


def test_some_members_wait_for_their_turn(agents: Agents, events: list[Event]) -> None:
    agents.mailbox.expect([A, B])
    agents.register(A)
    agents.register(B)
    agents.mailbox.launch(1, [member(A), member(B)], [B])
    assert (agents.order(A), agents.order(B)) == ("launch", "park")
    agents.started(A)
    agents.mailbox.launch(1, [member(A), member(B)])
    assert (agents.order(A), agents.order(B)) == ("launch", "launch")


def test_a_task_is_ready_once(real: GrpcAgents, events: list[Event]) -> None:
    real.mailbox.expect([A])
    real.register(A)
    real.mailbox.launch(1, [member(A)])
    number = real.directive(A).number
    for ready in (False, True, True):
        real.report(A, pb.STARTED, attempt=1, ready=ready)
    assert [type(event) for event in events[1:]] == [TaskStarted, TaskReady]
    real.mailbox.launch(1, [member(A)])
    assert real.directive(A).number == number, "the same order once more is none"


def test_each_group_of_processes_is_heard_of_once(real: GrpcAgents, events: list[Event]) -> None:
    real.mailbox.expect([A])
    real.register(A)
    for attempt, number, tasks in ((1, 1, 4), (1, 1, 4), (1, 2, 3), (1, 1, 4), (2, 1, 3)):
        group = pb.FormedGroup(number=number, tasks=tasks)
        real.report(A, pb.STARTED, attempt=attempt, group=group)
    formed = [event for event in events if isinstance(event, GroupFormed)]
    assert [(one.attempt, one.number, one.tasks) for one in formed] == [
        (1, 1, 4), (1, 2, 3), (2, 1, 3),
    ]  # fmt: skip


def test_inputs_are_prepared_before_the_launch(agents: Agents, events: list[Event]) -> None:
    agents.mailbox.expect([A, B])
    agents.register(A)
    agents.register(B)
    agents.mailbox.prepare(1, [member(A), member(B)])
    assert (agents.order(A), agents.order(B)) == ("prepare", "prepare")
    agents.staged(A)
    agents.mailbox.launch(1, [member(A), member(B)])
    assert agents.order(A) == "launch"
    agents.started(A)
    assert [type(event) for event in events[2:]] == [TaskStaged, TaskStarted]


def test_a_failed_process_is_heard_of_before_its_task_has_ended(
    agents: Agents, events: list[Event]
) -> None:
    agents.mailbox.expect([A])
    agents.register(A)
    agents.mailbox.launch(1, [member(A)])
    assert agents.order(A) == "launch"
    agents.started(A)
    agents.failing(A, 3)
    agents.exited(A, 3)
    assert [type(event) for event in events[1:]] == [TaskStarted, TaskFailing, TaskExited]
    failing = events[2]
    assert isinstance(failing, TaskFailing)
    assert [(one.kind, one.code) for one in failing.exits] == [(ExitKind.NON_ZERO, 3)]


def test_stop_replaces_launch_and_leave_replaces_everything(agents: Agents) -> None:
    agents.mailbox.expect([A])
    agents.register(A)
    agents.mailbox.launch(1, [member(A)])
    agents.mailbox.stop(A, 1, 10.0, "a peer failed")
    assert agents.order(A) == "stop"
    agents.mailbox.dismiss([A])
    agents.mailbox.dismiss([A])
    assert agents.order(A) == "leave"
    agents.mailbox.stop(A, 1, 10.0, "too late")
    agents.mailbox.launch(2, [member(A)])
    assert agents.order(A) == "leave"
    assert agents.mailbox.drain(1.0) == 0


@pytest.mark.parametrize(("of_b", "step"), [(12, 12), (None, None)])
def test_a_gang_stops_after_the_step_that_all_can_stop_after(
    of_b: int | None, step: int | None
) -> None:
    """Over gRPC alone: the fake's agents have no processes with steps."""
    agents = GrpcAgents([])
    try:
        agents.mailbox.expect([A, B])
        for ask in (A, B):
            agents.started(ask)
            agents.mailbox.stop(ask, 1, 10.0, "preempted", agreeing=2)
        assert agents.directive(A).stop.agree
        agents.report(A, pb.STARTED, attempt=1, stop_step=pb.StopStep(step=11))
        assert agents.directive(A).stop.agree, "B has not answered"
        agents.report(B, pb.STARTED, attempt=1, stop_step=pb.StopStep(step=of_b))
        for ask in (A, B):
            stop = agents.directive(ask).stop
            assert not stop.agree
            assert (stop.at_step if stop.HasField("at_step") else None) == step
            assert (stop.grace_s, stop.reason) == (10.0, "preempted")
        agents.mailbox.stop(A, 1, 5.0, "cancelled")
        agents.report(B, pb.STARTED, attempt=1, stop_step=pb.StopStep(step=99))
        assert not agents.directive(A).stop.HasField("at_step")
        assert agents.directive(B).stop.at_step == (step or 0)
    finally:
        agents.close()


def test_an_agent_that_cannot_says_so(agents: Agents, events: list[Event]) -> None:
    agents.mailbox.expect([A])
    agents.unable(A)
    (event,) = events
    assert isinstance(event, AgentUnable)
    assert (event.ask, event.message, event.is_user_fault) == (A, "no lease", False)


def test_dismissing_an_ask_that_was_never_expected_is_harmless(agents: Agents) -> None:
    agents.mailbox.dismiss([STRANGER])
    assert agents.order(STRANGER) == "leave"


# ---- the real one -----------------------------------------------------------------------------


@pytest.mark.grpc
def test_a_repeated_report_is_one_event(real: GrpcAgents, events: list[Event]) -> None:
    real.mailbox.expect([A])
    for state in (pb.READY, pb.READY, pb.STARTED, pb.STARTED, pb.EXITED, pb.EXITED, pb.STARTED):
        real.report(A, state, attempt=1)
    kinds = [type(event) for event in events]
    assert kinds == [AgentRegistered, TaskStarted, TaskExited]


@pytest.mark.grpc
def test_who_is_prepared_again_says_again_that_it_has_its_inputs(
    real: GrpcAgents, events: list[Event]
) -> None:
    """Also where its order is the same, as when another took B's place on B's node: the gang waits
    for both again."""
    real.mailbox.expect([A, B])
    numbers = []
    for others in ([], [], [member(B)]):
        real.mailbox.prepare(1, [member(A), *others])
        numbers.append(real.directive(A).number)
        real.report(A, pb.STAGED, attempt=1)
        real.report(A, pb.STAGED, attempt=1)
    kinds = [type(event) for event in events]
    assert kinds == [AgentRegistered, TaskStaged, TaskStaged, TaskStaged]
    assert numbers == [2, 3, 4]


@pytest.mark.grpc
def test_who_is_fetching_is_not_told_the_same_again(real: GrpcAgents) -> None:
    real.mailbox.expect([A])
    for _ in range(2):
        real.mailbox.prepare(1, [member(A)])
        assert real.directive(A).number == 2


@pytest.mark.grpc
def test_the_newest_word_on_inputs_counts(real: GrpcAgents) -> None:
    real.mailbox.expect([A, B])
    for done in (10, 60):
        staging = pb.StagingReport(files=2, files_done=1, size=100, done=done, cached=10, left_s=4)
        real.report(A, pb.READY, attempt=0, staging=staging)
    real.report(B, pb.READY, attempt=0)
    assert real.mailbox.staging() == [AgentStaging(A, 2, 1, 100, 60, 10, 4.0)]
    # What the job has read is told at its end too.
    real.mailbox.dismiss([A])
    assert len(real.mailbox.staging()) == 1


@pytest.mark.grpc
def test_a_lost_ready_report_is_made_up_for(real: GrpcAgents, events: list[Event]) -> None:
    real.mailbox.expect([A])
    real.report(A, pb.EXITED, attempt=1)
    assert [type(event) for event in events] == [AgentRegistered, TaskExited]


@pytest.mark.grpc
def test_ranks_devices_and_environment_follow_the_members_order(real: GrpcAgents) -> None:
    real.mailbox.expect([A, B])
    real.mailbox.launch(1, [member(B), member(A, ("5", "7", "6"))])
    launch = real.directive(A).launch
    assert [process.rank for process in launch.processes] == [2, 3]
    assert [list(process.gpu_ids) for process in launch.processes] == [["5", "7"], ["6"]]
    assert launch.processes[1].env["YARNAM_RANK"] == "3"
    assert launch.processes[1].env["YARNAM_APPLICATION_ID"] == "application_1_1"
    assert (launch.role, launch.index, launch.attempt) == ("worker", 0, 1)


@pytest.mark.grpc
def test_the_first_task_of_an_in_place_gang_is_told_who_belongs_to_it(events: list[Event]) -> None:
    job = replace(JOB, framework="torchrun", elastic=ElasticSpec(restart=False))
    (role,) = job.roles
    agents = GrpcAgents(events, replace(job, roles=(replace(role, min_tasks=1),)))
    try:
        agents.mailbox.expect([A, B])
        agents.mailbox.launch(1, [member(A), member(B)])
        first, second = agents.directive(A), agents.directive(B)
        assert list(first.launch.members) == [f"{A}:2", f"{B}:2"]
        assert not second.launch.members
        agents.mailbox.launch(1, [member(A)])
        again = agents.directive(A)
        assert again.number > first.number
        assert (again.launch.attempt, list(again.launch.members)) == (1, [f"{A}:2"])
        assert agents.directive(B) == second, "it has lost its task: nothing is said to it"
    finally:
        agents.close()


@pytest.mark.grpc
def test_a_parked_agent_hears_of_the_launch_at_once(real: GrpcAgents) -> None:
    real.mailbox.expect([A])
    assert real.directive(A).HasField("park")
    call = real.stub.AwaitDirective.future(
        pb.DirectiveRequest(
            protocol=PROTOCOL, ask=str(A), container=f"container_{A}", seen=1, hold_ms=5000
        ),
        timeout=10.0,
    )
    real.until_held(1)
    assert not call.done()
    began = time.monotonic()
    real.mailbox.launch(1, [member(A)])
    assert call.result().HasField("launch")
    assert time.monotonic() - began < 1.0


@pytest.mark.grpc
def test_a_parked_agent_gets_new_tokens_at_once_and_no_order(real: GrpcAgents) -> None:
    real.mailbox.expect([A])
    assert not real.directive(A).HasField("tokens")
    request = pb.DirectiveRequest(
        protocol=PROTOCOL, ask=str(A), container=f"container_{A}", seen=1, hold_ms=5000
    )
    call = real.stub.AwaitDirective.future(request, timeout=10.0)
    real.until_held(1)
    real.mailbox.hand_out(["first"])
    answer = call.result()
    assert (answer.number, answer.tokens.number, list(answer.tokens.tokens)) == (1, 1, ["first"])
    assert not real.directive(A, hold_ms=100, tokens=1).HasField("tokens")
    real.mailbox.hand_out(["second"])
    assert list(real.directive(A, tokens=1).tokens.tokens) == ["second"]


@pytest.mark.grpc
def test_a_new_agent_has_the_tokens_before_it_is_to_launch(real: GrpcAgents) -> None:
    real.mailbox.hand_out(["fresh"])
    real.mailbox.expect([A])
    real.mailbox.launch(1, [member(A)])
    answer = real.directive(A)
    assert answer.HasField("launch")
    assert list(answer.tokens.tokens) == ["fresh"]
    assert not real.directive(STRANGER).HasField("tokens")


@pytest.mark.grpc
def test_a_hold_ends_with_the_same_directive(real: GrpcAgents) -> None:
    real.mailbox.expect([A])
    number = real.directive(A).number
    began = time.monotonic()
    assert real.directive(A, hold_ms=300).number == number
    assert time.monotonic() - began >= 0.25


@pytest.mark.grpc
def test_silence_is_noticed_once_and_only_of_agents_that_have_spoken(
    real: GrpcAgents, events: list[Event]
) -> None:
    last = AskId(1, "worker", 2)
    real.mailbox.expect([A, B, last])
    real.register(A)
    wait_for(lambda: len(events) == 2, 4.0)
    # By the time that another one's silence is noticed, A has been silent for twice as long.
    real.register(last)
    wait_for(lambda: len(events) >= 4, 4.0)
    assert [(type(event).__name__, getattr(event, "ask", None)) for event in events] == [
        ("AgentRegistered", A), ("AgentSilent", A),
        ("AgentRegistered", last), ("AgentSilent", last),
    ]  # fmt: skip
    real.mailbox.dismiss([A, last])


@pytest.mark.grpc
def test_a_held_call_counts_as_heartbeat_only_when_it_comes_again(
    real: GrpcAgents, events: list[Event]
) -> None:
    real.mailbox.expect([A])
    real.register(A)
    for _ in range(6):
        real.directive(A, hold_ms=300)
    assert [type(event).__name__ for event in events] == ["AgentRegistered"]


@pytest.mark.grpc
def test_another_container_for_the_same_ask_has_to_leave(
    real: GrpcAgents, events: list[Event]
) -> None:
    real.mailbox.expect([A])
    real.register(A)
    assert real.directive(A, container="container_other").HasField("leave")
    real.report(A, pb.READY, container="container_other")
    assert len(events) == 1
    assert real.directive(A, seen=0).HasField("park")


@pytest.mark.grpc
def test_an_agent_started_again_in_its_container_has_lost_its_processes(
    real: GrpcAgents, events: list[Event]
) -> None:
    real.mailbox.expect([A])
    real.register(A)
    real.directive(A, seen=0)
    real.mailbox.launch(1, [member(A)])
    real.directive(A, seen=1)
    real.directive(A, seen=2)
    real.started(A)
    real.directive(A, seen=0)
    assert isinstance(events[-1], AgentUnable)
    assert "started again" in events[-1].message


@pytest.mark.grpc
def test_a_lost_first_answer_is_no_restart(real: GrpcAgents, events: list[Event]) -> None:
    real.mailbox.expect([A])
    real.register(A)
    assert real.directive(A, seen=0).number == 1
    assert real.directive(A, seen=0).number == 1
    assert len(events) == 1


@pytest.mark.grpc
def test_another_protocol_version_is_refused(real: GrpcAgents) -> None:
    request = pb.DirectiveRequest(protocol=PROTOCOL + 1, ask=str(A), container="c")
    with pytest.raises(grpc.RpcError) as caught:
        real.stub.AwaitDirective(request, timeout=CALL_S)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.grpc
def test_nonsense_for_an_ask_is_refused(real: GrpcAgents) -> None:
    request = pb.DirectiveRequest(protocol=PROTOCOL, ask="nonsense", container="c")
    with pytest.raises(grpc.RpcError) as caught:
        real.stub.AwaitDirective(request, timeout=CALL_S)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.grpc
@pytest.mark.parametrize("who", ["nobody", "another job"])
def test_callers_without_the_jobs_certificate_are_refused(real: GrpcAgents, who: str) -> None:
    certificate = real.pem[: real.pem.index(b"-----BEGIN PRIVATE")]
    if who == "nobody":
        credentials = grpc.ssl_channel_credentials(certificate)
    else:
        other = new_credentials()
        start = other.index(b"-----BEGIN PRIVATE")
        credentials = grpc.ssl_channel_credentials(certificate, other[start:], other[:start])
    with grpc.secure_channel(real.address, credentials, CHANNEL_OPTIONS) as channel:
        stub = pb_grpc.TaskMailboxStub(channel)  # type: ignore[no-untyped-call]
        request = pb.DirectiveRequest(protocol=PROTOCOL, ask=str(A), container="c")
        with pytest.raises(grpc.RpcError) as caught:
            stub.AwaitDirective(request, timeout=2.0)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.grpc
def test_metrics_of_the_newest_attempt_by_rank(real: GrpcAgents) -> None:
    later = AskId(2, "worker", 0)
    real.mailbox.expect([A, later])
    for ask, step in ((A, 10), (later, 5), (later, 6)):
        process = pb.ProcessReport(
            rank=0, metrics=pb.Metrics(at_s=1.0, step=step, values={"loss": 0.5})
        )
        real.report(ask, pb.STARTED, attempt=ask.attempt, processes=[process])
    (metric,) = real.mailbox.metrics()
    assert (metric.ask, metric.rank, metric.step, metric.total_steps) == (later, 0, 6, None)
    assert dict(metric.values) == {"loss": 0.5}
    real.mailbox.dismiss([A, later])
    assert len(real.mailbox.metrics()) == 1


@pytest.mark.grpc
def test_a_poll_brings_what_the_processes_do_that_run(real: GrpcAgents) -> None:
    """It has no order among the reports: of a launch that has not started, or has ended, it says
    nothing."""
    real.mailbox.expect([A])
    real.register(A)

    def poll(step: int) -> list[int | None]:
        metrics = pb.Metrics(at_s=1.0, step=step)
        process = pb.ProcessReport(rank=0, stopped=True, metrics=metrics)
        real.directive(A, progress=pb.Progress(attempt=1, processes=[process]))
        return [metric.step for metric in real.mailbox.metrics()]

    assert poll(3) == []
    real.started(A)
    assert poll(4) == [4]
    assert poll(5) == [5]
    (activity,) = real.mailbox.activity()
    assert (activity.step, activity.is_stopped) == (5, True)
    real.exited(A, 1)
    assert poll(6) == [5]


@pytest.mark.grpc
def test_metrics_of_a_kept_agent_are_of_its_newest_launch(real: GrpcAgents) -> None:
    """Its ask keeps its name when the gang is made whole in place; its ranks may be others."""
    new = AskId(2, "worker", 0)
    real.mailbox.expect([A, B, new])

    def tell(ask: AskId, attempt: int, rank: int, step: int) -> None:
        process = pb.ProcessReport(rank=rank, metrics=pb.Metrics(at_s=1.0, step=step))
        real.report(ask, pb.STARTED, attempt=attempt, processes=[process])

    tell(A, 1, 0, 50)
    tell(B, 1, 1, 50)
    real.mailbox.dismiss([B])
    tell(new, 2, 0, 40)
    assert [(m.ask, m.rank, m.step) for m in real.mailbox.metrics()] == [(new, 0, 40)]
    tell(A, 2, 1, 41)
    assert [(m.ask, m.rank, m.step) for m in real.mailbox.metrics()] == [(new, 0, 40), (A, 1, 41)]


@pytest.mark.grpc
def test_drain_counts_agents_that_do_not_fetch_their_leave(real: GrpcAgents) -> None:
    real.mailbox.expect([A, B])
    real.register(A)
    real.mailbox.dismiss([A, B])
    assert real.mailbox.drain(0.1) == 1
    assert real.order(A) == "leave"
    assert real.mailbox.drain(1.0) == 0


@pytest.mark.grpc
def test_nothing_is_kept_of_an_agent_that_has_left_but_its_last_report(real: GrpcAgents) -> None:
    real.mailbox.expect([A, B])
    process = pb.ProcessReport(rank=0, metrics=pb.Metrics(at_s=1.0, step=7))
    real.report(A, pb.STARTED, attempt=1, processes=[process], staging=pb.StagingReport(files=3))
    real.register(B)
    number = real.directive(A).number
    real.mailbox.dismiss([A])
    assert real.order(A) == "leave"
    wait_for(lambda: [session.ask for session in real.mailbox._sessions] == [B])
    assert [metric.step for metric in real.mailbox.metrics()] == [7]
    assert [staging.files for staging in real.mailbox.staging()] == [3]
    # Its answer may have been lost, and orders may come late: it has to leave all the same.
    real.mailbox.stop(A, 1, 1.0, "late")
    real.mailbox.dismiss([A])
    for seen in (0, 1, number):
        answer = real.directive(A, seen=seen)
        assert (answer.WhichOneof("order"), answer.number != seen) == ("leave", True)
    assert len(real.mailbox._sessions) == 1


@pytest.mark.grpc
def test_an_agent_that_was_killed_is_not_waited_for(real: GrpcAgents) -> None:
    """A container that YARN has taken: its agent never fetches its order to leave."""
    real.mailbox.expect([A])
    real.register(A)
    real.mailbox.dismiss([A])
    began = time.monotonic()
    assert real.mailbox.drain(CALL_S) == 0
    assert time.monotonic() - began > JOB.am.agent_silence_s / 2
    assert not len(real.mailbox._sessions)


@pytest.mark.grpc
def test_a_hundred_attempts_leave_nothing_behind(real: GrpcAgents) -> None:
    """Half of the agents are killed in each attempt, the others leave."""
    descriptors = []
    for attempt in range(1, 101):
        asks = [AskId(attempt, "worker", 10 * attempt + number) for number in range(10)]
        real.mailbox.expect(asks)
        for ask in asks:
            process = pb.ProcessReport(rank=ask.number % 10, metrics=pb.Metrics(at_s=1.0, step=1))
            staging = pb.StagingReport(files=1)
            real.report(ask, pb.STARTED, attempt=attempt, processes=[process], staging=staging)
        real.mailbox.dismiss(asks)
        assert {real.order(ask) for ask in asks[::2]} == {"leave"}
        descriptors.append(len(list(Path("/proc/self/fd").iterdir())))
    # Earlier tests leave some that are closed meanwhile; one for each of 1,000 agents would show.
    assert descriptors[-1] < descriptors[0] + 20
    wait_for(lambda: not len(real.mailbox._sessions))
    assert not real.mailbox._changed
    assert [metric.attempt for metric in real.mailbox.metrics()] == [100] * 10
    assert 10 <= len(real.mailbox.staging()) < 1000


@pytest.mark.grpc
def test_a_hundred_agents_get_their_launch_with_all_hosts_and_a_pace(real: GrpcAgents) -> None:
    """More than are answered at a time. What all have alike is kept once."""
    asks = [AskId(1, "worker", number) for number in range(120)]
    real.mailbox.expect(asks)
    calls = [
        real.stub.AwaitDirective.future(
            pb.DirectiveRequest(
                protocol=PROTOCOL, ask=str(ask), container="c", seen=1, hold_ms=9000
            ),
            timeout=10.0,
        )
        for ask in asks
    ]
    real.until_held(len(calls))
    real.mailbox.launch(1, [member(ask) for ask in asks])
    directives = [call.result() for call in calls]
    launches = [directive.launch for directive in directives]
    assert not any("YARNAM_HOSTS" in one.env for launch in launches for one in launch.processes)
    assert all(directive.ByteSize() < 1000 for directive in directives), "the hosts are packed"
    for directive in directives:
        share_environment(directive)
    hosts = {one.env["YARNAM_HOSTS"] for launch in launches for one in launch.processes}
    assert hosts == {",".join(["addr"] * 120)}
    assert [launch.processes[0].env["YARNAM_RANK"] for launch in launches[:2]] == ["0", "2"]
    assert {(launch.hold_ms, launch.metrics_period_ms) for launch in launches} == {(2000, 1000)}
    assert all(not session.directive.launch.shared_env for session in real.mailbox._sessions)


@pytest.mark.grpc
def test_a_stop_does_not_wait_until_the_loop_has_time(real: GrpcAgents) -> None:
    """A gang of 1,000 tasks is stopped by 1,000 calls, while its agents keep the loop busy."""
    import threading

    asks = [AskId(1, "worker", number) for number in range(3)]
    real.mailbox.expect(asks)
    for ask in asks:
        real.register(ask)
    is_free = threading.Event()
    real.mailbox._loop.call_soon_threadsafe(is_free.wait)
    try:
        for ask in asks:
            real.mailbox.stop(ask, 1, 10.0, "cancelled")
    finally:
        is_free.set()
    assert [real.order(ask) for ask in asks] == ["stop"] * 3


@pytest.mark.grpc
def test_many_parked_agents_cost_no_threads(real: GrpcAgents) -> None:
    import threading

    before = threading.active_count()
    asks = [AskId(1, "worker", number) for number in range(40)]
    real.mailbox.expect(asks)
    calls = [
        real.stub.AwaitDirective.future(
            pb.DirectiveRequest(
                protocol=PROTOCOL, ask=str(ask), container="c", seen=1, hold_ms=3000
            ),
            timeout=10.0,
        )
        for ask in asks
    ]
    real.until_held(len(calls))
    assert not any(call.done() for call in calls)
    # The client's own threads aside (one per channel), nothing has been added.
    assert threading.active_count() - before <= 3
    real.mailbox.dismiss(asks)
    assert all(call.result().HasField("leave") for call in calls)


# ---- a large gang: its agents' polls do not wait at the AM --------------------------------------

LARGE = replace(
    JOB,
    roles=(replace(JOB.roles[0], tasks=HELD_CALLS + 1),),
    am=AmSpec(agent_silence_s=60.0),
)


@pytest.fixture
def large(events: list[Event]) -> Iterator[GrpcAgents]:
    made = GrpcAgents(events, LARGE)
    yield made
    made.close()


class WokenAgent:
    """The product's own client, which may be woken; ``orders`` are those that came, with times."""

    def __init__(self, real: GrpcAgents, ask: AskId) -> None:
        self.real, self.ask = real, ask
        self.wake = WakeListener()
        self.polls = 0
        self.orders: list[tuple[str, float]] = []
        container = f"container_{ask}"
        self.client = MailboxClient(
            real.address, real.pem, str(ask), container, AmLimits(60.0), self.wake
        )  # fmt: skip

    async def run(self, *, is_open: bool = True) -> None:
        if is_open:
            self.wake.open("127.0.0.1")
        report = pb.AgentReport(
            protocol=PROTOCOL, ask=str(self.ask), container=f"container_{self.ask}", node="n1",
            address="addr", state=pb.READY, wake=self.wake.port,
        )  # fmt: skip
        try:
            await self.client.report(report)
            seen = 0
            while not self.orders or self.orders[-1][0] != "leave":
                order = await self.client.await_directive(seen)
                self.polls += 1
                if order.number != seen:
                    self.orders.append((type(order.order).__name__.lower(), time.monotonic()))
                seen = order.number
        finally:
            self.wake.close()
            await self.client.close()


async def until(condition: Callable[[], bool], limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "not in time"
        await asyncio.sleep(0.02)


@pytest.mark.grpc
def test_an_agent_of_a_large_gang_is_woken_and_no_call_of_its_waits(large: GrpcAgents) -> None:
    async def act() -> None:
        large.mailbox.expect([A])
        agent = WokenAgent(large, A)
        running = asyncio.create_task(agent.run())
        await until(lambda: agent.wake.is_heard and len(agent.orders) == 1)
        await asyncio.sleep(0.3)
        assert not large.mailbox._changed
        polls, began = agent.polls, time.monotonic()
        large.mailbox.launch(1, [member(A)])
        await until(lambda: len(agent.orders) == 2)
        large.mailbox.dismiss([A])
        await running
        assert [order for order, _ in agent.orders] == ["park", "launch", "leave"]
        assert agent.orders[-1][1] - began < 1.5, "it waited for its own polls, 2 s apart"
        assert agent.polls <= polls + 3

    asyncio.run(act())


@pytest.mark.grpc
def test_an_agent_that_polls_before_its_turn_to_be_woken_hears_a_datagram(
    events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(am_server, "WAKE_AT_ONCE", 1)
    monkeypatch.setattr(am_server, "WAKE_PAUSE_S", 600.0)
    monkeypatch.setattr(am_server, "SILENCE_TICK_S", 600.0)
    large = GrpcAgents(events, LARGE)

    async def act() -> None:
        large.mailbox.expect([A, B])
        agents = [WokenAgent(large, A), WokenAgent(large, B)]
        running = [asyncio.create_task(agent.run()) for agent in agents]
        await until(lambda: all(agent.wake.is_heard and agent.orders for agent in agents))
        large.mailbox.launch(1, [member(A), member(B)])
        await until(lambda: all(len(agent.orders) == 2 for agent in agents))
        assert all(agent.wake.is_heard for agent in agents)
        large.mailbox.dismiss([A, B])
        await asyncio.gather(*running)

    try:
        asyncio.run(act())
    finally:
        large.close()


@pytest.mark.grpc
def test_an_agent_that_cannot_be_woken_holds_its_calls(large: GrpcAgents) -> None:
    async def act() -> None:
        large.mailbox.expect([A])
        agent = WokenAgent(large, A)
        running = asyncio.create_task(agent.run(is_open=False))
        await until(lambda: str(A) in large.mailbox._changed)
        large.mailbox.dismiss([A])
        await running
        assert [order for order, _ in agent.orders] == ["park", "leave"]

    asyncio.run(act())


@pytest.mark.grpc
def test_a_lost_datagram_is_sent_again(large: GrpcAgents) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(20.0)
        address, port = listener.getsockname()
        large.mailbox.expect([A])
        wake = pb.WakePort(address=address, port=port, key=b"k" * 16)
        large.report(A, pb.READY, wake=wake)
        assert number_in_wake(b"k" * 16, listener.recv(100)) == 1
        large.directive(A)
        large.mailbox.dismiss([A])
        # One when it is given, one more at each tick, until the agent has fetched it.
        assert [number_in_wake(b"k" * 16, listener.recv(100)) for _ in range(3)] == [2, 2, 2]
        assert large.order(A) == "leave"
        time.sleep(0.2)
        listener.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while listener.recv(100):
                pass  # sent before that
        time.sleep(1.2)
        with pytest.raises(BlockingIOError):
            listener.recv(100)


# ---- the agents of an earlier AM attempt -------------------------------------------------------


def test_adopted_agents_are_told_what_they_do_already(agents: Agents, events: list[Event]) -> None:
    if isinstance(agents, GrpcAgents):
        agents.seen = {A: 7, B: 7}
    agents.mailbox.adopt(adoption(waiting=(B,), is_started=True))
    assert (agents.order(A), agents.order(B)) == ("launch", "park")
    agents.exited(A, 0)
    (event,) = events
    assert isinstance(event, TaskExited)
    assert (event.ask, event.attempt) == (A, 1)


@pytest.fixture
def later(events: list[Event]) -> Iterator[GrpcAgents]:
    """Of the second AM attempt."""
    made = GrpcAgents(events, am_attempt=2)
    yield made
    made.close()


def test_a_later_attempt_numbers_its_directives_otherwise(later: GrpcAgents) -> None:
    """The agent has seen some of the attempt before, by numbers that come again."""
    later.mailbox.adopt(adoption(is_started=True))
    for seen in (1, 2, 3):
        answer = later.directive(A, seen=seen, hold_ms=2000)
        assert answer.number > 1 << 32
        assert answer.WhichOneof("order") == "launch"


def test_what_the_journal_has_is_not_told_again(later: GrpcAgents, events: list[Event]) -> None:
    later.mailbox.adopt(adoption(is_started=True, is_ready=True))
    later.report(A, pb.STARTED, attempt=1, ready=True)
    assert events == []
    later.exited(A, 3)
    assert [type(event) for event in events] == [TaskExited]


def test_an_end_that_the_journal_has_is_not_told_again(
    later: GrpcAgents, events: list[Event]
) -> None:
    later.mailbox.adopt(adoption(is_started=True, has_exited=True))
    later.exited(A, 0)
    assert events == []


def test_a_stranger_is_not_adopted(later: GrpcAgents, events: list[Event]) -> None:
    """Another container, although with the job's certificate."""
    later.mailbox.adopt(adoption(is_started=True))
    later.report(A, pb.EXITED, container="container_x", attempt=1)
    assert later.directive(A, seen=0, container="container_x").WhichOneof("order") == "leave"
    assert events == []
    assert later.order(A) == "launch"


def test_an_agent_that_was_started_again_meanwhile_has_lost_its_processes(
    later: GrpcAgents, events: list[Event]
) -> None:
    later.mailbox.adopt(adoption(is_started=True))
    later.directive(A, seen=0)
    (event,) = events
    assert isinstance(event, AgentUnable)


def test_one_that_does_not_find_this_attempt_is_silent(
    later: GrpcAgents, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(am_server, "ADOPTION_LIMIT_S", 0.5)
    later.mailbox.adopt(adoption(is_started=True))
    later.directive(B, seen=3)
    wait_for(lambda: bool(events))
    (event,) = events
    assert isinstance(event, AgentSilent)
    assert event.ask == A
