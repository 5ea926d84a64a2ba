"""One contract for the way to YARN: the fake, and the real broker over Skein's books."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from tests.fakes.container_broker import FakeBroker
from tests.fakes.skein_am import FakeSkeinAm, Refusal
from yarnam.adapters.skein.am_client import ContainerKey
from yarnam.adapters.skein.broker import BrokerTiming, SkeinBroker
from yarnam.adapters.skein.response_log import ResponseLog
from yarnam.adapters.skein.responses import Responses
from yarnam.core.model.actions import AskContainer
from yarnam.core.model.events import (
    BrokerFailed,
    ContainerEnded,
    ContainerGranted,
    ContainersMarked,
    Event,
    NodeLeaving,
)
from yarnam.core.model.ids import AskId, NodeId, RackId
from yarnam.core.model.outcomes import ContainerEnd, Verdict, VerdictKind
from yarnam.core.model.plans import LocalityLevel, Target
from yarnam.core.model.resources import Resources
from yarnam.errors import ExitCode, InternalError, Unavailable
from yarnam.ports import ContainerBroker

TARGET = Target("worker-any", "worker", LocalityLevel.ANY, Resources(512, 1, 1))
A, B = AskId(1, "worker", 0), AskId(1, "worker", 1)
NODES = {"n1:8042": (NodeId("n1"), RackId("/r1")), "n2:8042": (NodeId("n2"), RackId("/r2"))}


def ask(*asks: AskId) -> list[AskContainer]:
    return [AskContainer(one, TARGET) for one in asks]


def wait_for(condition: Callable[[], bool], limit_s: float = 5.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


def until_polled(skein: FakeSkeinAm) -> None:
    """The broker has seen all that was so when this began: one poll has begun since, and ended,
    for another has begun."""
    before = skein.polls
    wait_for(lambda: skein.polls >= before + 2)


class Yarn(Protocol):
    broker: ContainerBroker

    def grant(self, ask: AskId, node: str) -> None: ...
    def end(self, ask: AskId, end: ContainerEnd) -> None: ...
    def outstanding(self) -> int: ...
    def final_status(self) -> tuple[str, str]: ...
    def settle(self) -> None: ...


class FakeYarn:
    def __init__(self, events: list[Event]) -> None:
        self.broker = FakeBroker()
        self.broker.start(events.append)

    def grant(self, ask: AskId, node: str) -> None:
        self.broker.grant(ask, node)

    def end(self, ask: AskId, end: ContainerEnd) -> None:
        self.broker.end(ask, end, "why")

    def outstanding(self) -> int:
        return len(self.broker.pending) + len(self.broker.granted)

    def settle(self) -> None:
        pass

    def final_status(self) -> tuple[str, str]:
        verdict = self.broker.verdict
        assert verdict is not None
        return verdict.kind.value, verdict.message

    def close(self) -> None:
        pass


TEXTS = {
    ContainerEnd.LOST: "Container released on a *lost* node",
    ContainerEnd.PREEMPTED: "Container preempted by scheduler",
    ContainerEnd.FAILED: "Container failed during execution, see logs for more information.",
}


QUICK = BrokerTiming(eager_poll_s=0.02, calm_poll_s=0.02, idle_poll_s=0.02)


class SkeinYarn:
    def __init__(self, events: list[Event], timing: BrokerTiming) -> None:
        self.skein = FakeSkeinAm()
        env = {"YARNAM_AM_ADDRESS": "h:1"}
        self.why_ended: list[str] = []
        self.broker = SkeinBroker(
            self.skein,
            NODES.get,
            agent_env=lambda: env,
            timing=timing,
            end_attempt=self.why_ended.append,
        )
        self.broker.start(events.append)

    def key(self, ask: AskId) -> ContainerKey:
        found = [key for key, env in self.skein.env.items() if env["YARNAM_ASK"] == str(ask)]
        return found[-1]

    def grant(self, ask: AskId, node: str) -> None:
        self.skein.run(self.key(ask), f"{node}:8042")
        self.settle()

    def end(self, ask: AskId, end: ContainerEnd) -> None:
        if end is ContainerEnd.EXITED:
            self.skein.succeed(self.key(ask))
        else:
            self.skein.end(self.key(ask), TEXTS[end])
        self.settle()

    def outstanding(self) -> int:
        return len(self.skein.containers(("REQUESTED", "RUNNING")))

    def final_status(self) -> tuple[str, str]:
        assert self.skein.shut is not None
        return self.skein.shut

    def settle(self) -> None:
        until_polled(self.skein)

    def close(self) -> None:
        self.broker.close()


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture(params=["fake", "skein"])
def yarn(request: pytest.FixtureRequest, events: list[Event]) -> Iterator[Yarn]:
    made: FakeYarn | SkeinYarn = (
        FakeYarn(events) if request.param == "fake" else SkeinYarn(events, QUICK)
    )
    yield made
    made.close()


@pytest.fixture
def timing(request: pytest.FixtureRequest) -> BrokerTiming:
    """Quick polls; a test asks for other limits by a parameter."""
    return getattr(request, "param", QUICK)


@pytest.fixture
def real(events: list[Event], timing: BrokerTiming) -> Iterator[SkeinYarn]:
    made = SkeinYarn(events, timing)
    yield made
    made.close()


# ---- both -------------------------------------------------------------------------------------


def test_an_ask_is_granted_once_with_node_and_rack(yarn: Yarn, events: list[Event]) -> None:
    yarn.broker.ask(ask(A))
    yarn.grant(A, "n1")
    yarn.settle()
    (event,) = events
    assert isinstance(event, ContainerGranted)
    assert (event.ask, event.node) == (A, "n1")
    assert event.container


def test_asking_twice_asks_once(yarn: Yarn) -> None:
    yarn.broker.ask(ask(A))
    yarn.broker.ask(ask(A, B))
    assert yarn.outstanding() == 2


@pytest.mark.parametrize(
    "end", [ContainerEnd.LOST, ContainerEnd.PREEMPTED, ContainerEnd.FAILED, ContainerEnd.EXITED]
)
def test_an_end_is_told_once_with_its_kind(
    yarn: Yarn, events: list[Event], end: ContainerEnd
) -> None:
    yarn.broker.ask(ask(A))
    yarn.grant(A, "n1")
    yarn.end(A, end)
    yarn.settle()
    assert [type(event) for event in events] == [ContainerGranted, ContainerEnded]
    last = events[-1]
    assert isinstance(last, ContainerEnded)
    assert (last.ask, last.end) == (A, end)
    assert last.diagnostics


def test_releasing_a_pending_ask_withdraws_it(yarn: Yarn, events: list[Event]) -> None:
    yarn.broker.ask(ask(A, B))
    yarn.broker.release([A])
    yarn.settle()
    assert yarn.outstanding() == 1
    assert events == []


def test_releasing_a_granted_container_gives_it_back_in_silence(
    yarn: Yarn, events: list[Event]
) -> None:
    yarn.broker.ask(ask(A))
    yarn.grant(A, "n1")
    yarn.broker.release([A])
    yarn.broker.release([A])
    yarn.settle()
    assert yarn.outstanding() == 0
    assert len(events) == 1


def test_releasing_what_is_unknown_is_harmless(yarn: Yarn, events: list[Event]) -> None:
    yarn.broker.release([A])
    yarn.broker.ask(ask(B))
    assert yarn.outstanding() == 1
    assert events == []


def test_a_grant_after_the_release_is_given_back(yarn: Yarn, events: list[Event]) -> None:
    yarn.broker.ask(ask(A))
    yarn.broker.release([A])
    yarn.grant(A, "n1")
    yarn.settle()
    assert yarn.outstanding() == 0
    assert events == []


def test_shutdown_carries_the_verdict(yarn: Yarn) -> None:
    yarn.broker.shutdown(Verdict(VerdictKind.SUCCEEDED, 0, "done"))
    status, text = yarn.final_status()
    assert status == "SUCCEEDED"
    assert "done" in text


# ---- the real one -----------------------------------------------------------------------------


def test_the_agent_learns_its_ask_and_the_am_from_its_environment(real: SkeinYarn) -> None:
    real.broker.ask(ask(A))
    (env,) = real.skein.env.values()
    assert env == {"YARNAM_ASK": "a1.worker.0", "YARNAM_AM_ADDRESS": "h:1"}


def test_a_kill_that_fails_is_repeated_until_the_container_is_gone(real: SkeinYarn) -> None:
    real.broker.ask(ask(A))
    real.grant(A, "n1")
    real.skein.ignores_kills = True
    real.broker.release([A])
    wait_for(lambda: len(real.skein.kills) > 1)
    assert real.outstanding() == 1
    real.skein.ignores_kills = False
    wait_for(lambda: real.outstanding() == 0)


def test_one_refusal_is_tried_again(real: SkeinYarn, events: list[Event]) -> None:
    real.skein.refusal = Refusal(Unavailable("addContainer: DEADLINE_EXCEEDED"))
    real.broker.ask(ask(A, B))
    assert real.outstanding() == 2
    assert events == []


def test_a_second_refusal_is_the_end(real: SkeinYarn, events: list[Event]) -> None:
    real.skein.refusal = Refusal(InternalError("addContainer: UNKNOWN: too much"), times=9)
    real.broker.ask(ask(A))
    until_polled(real.skein)
    (event,) = events
    assert isinstance(event, BrokerFailed)
    assert "a1.worker.0" in event.message
    assert "too much" in event.message


@pytest.mark.parametrize("timing", [replace(QUICK, stray_s=0.2)], indirect=True)
def test_a_container_whose_answer_was_lost_is_given_back(
    real: SkeinYarn, events: list[Event]
) -> None:
    lost = Unavailable("addContainer: DEADLINE_EXCEEDED")
    real.skein.refusal = Refusal(lost, happens_anyway=True)
    real.broker.ask(ask(A))
    assert real.outstanding() == 2
    first, second = real.skein.of_service("worker-any")
    real.skein.run(first)
    real.skein.run(second)
    wait_for(lambda: real.outstanding() == 1)
    assert real.skein.kills == [first]
    assert [type(event) for event in events] == [ContainerGranted]


@pytest.mark.parametrize("timing", [replace(QUICK, gone_s=0.3)], indirect=True)
def test_skein_gone_for_too_long_ends_the_attempt_and_not_the_job(
    real: SkeinYarn, events: list[Event]
) -> None:
    real.broker.ask(ask(A))
    real.skein.is_gone = True
    wait_for(lambda: bool(real.why_ended))
    (reason,) = real.why_ended
    assert "no answer for" in reason
    assert "Connection refused" in reason
    assert events == []


def test_what_skein_does_not_answer_to_is_asked_again(real: SkeinYarn, events: list[Event]) -> None:
    """A JVM that is frozen, or on a node with much else to do."""
    real.skein.is_gone = True
    real.broker.ask(ask(A, B))
    real.broker.release([B])
    real.skein.is_gone = False
    wait_for(lambda: real.outstanding() == 1)
    real.grant(A, "n1")
    wait_for(lambda: bool(events))
    (event,) = events
    assert isinstance(event, ContainerGranted)
    assert event.ask == A
    until_polled(real.skein)
    assert real.outstanding() == 1


@pytest.mark.parametrize("timing", [replace(QUICK, idle_poll_s=60.0)], indirect=True)
def test_between_two_polls_it_waits(real: SkeinYarn) -> None:
    wait_for(lambda: real.skein.polls > 0)
    time.sleep(0.1)
    assert real.skein.polls <= 2


def test_a_node_unknown_for_a_moment_is_awaited(events: list[Event]) -> None:
    known: dict[str, tuple[NodeId, RackId]] = {}
    skein = FakeSkeinAm()
    broker = SkeinBroker(skein, known.get, timing=QUICK)
    broker.start(events.append)
    broker.ask(ask(A))
    skein.run(skein.of_service("worker-any")[0], "n9:8042")
    until_polled(skein)
    assert events == []
    known["n9:8042"] = (NodeId("n9"), RackId("/r9"))
    wait_for(lambda: bool(events))
    broker.close()
    (event,) = events
    assert isinstance(event, ContainerGranted)
    assert (event.node, event.rack, event.http_address) == ("n9", "/r9", "n9:8042")


@pytest.mark.parametrize("timing", [replace(QUICK, locate_s=0.1)], indirect=True)
def test_a_node_that_stays_unknown_is_told_without_a_rack(
    real: SkeinYarn, events: list[Event]
) -> None:
    real.broker.ask(ask(A))
    real.grant(A, "stranger")
    wait_for(lambda: bool(events))
    (event,) = events
    assert isinstance(event, ContainerGranted)
    assert (event.node, event.rack) == ("stranger", "")


def test_a_kill_by_somebody_else_is_a_failure(real: SkeinYarn, events: list[Event]) -> None:
    real.broker.ask(ask(A))
    real.grant(A, "n1")
    real.skein.kill(real.key(A))
    wait_for(lambda: len(events) == 2)
    last = events[-1]
    assert isinstance(last, ContainerEnded)
    assert last.end is ContainerEnd.FAILED


@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [
        (VerdictKind.SUCCEEDED, ExitCode.OK, "SUCCEEDED"),
        (VerdictKind.FAILED, ExitCode.USER_FAILED, "FAILED"),
        (VerdictKind.CANCELLED, ExitCode.CANCELLED, "KILLED"),
    ],
)
def test_diagnostics_say_code_message_and_hint(
    real: SkeinYarn, kind: VerdictKind, code: ExitCode, status: str
) -> None:
    real.broker.shutdown(Verdict(kind, int(code), "what failed", "what next"))
    assert real.skein.shut is not None
    shown, text = real.skein.shut
    assert shown == status
    assert text.splitlines() == [
        f"yarnam: {code.name} (exit code {code.value})",
        "what failed",
        "what next",
    ]


def test_what_yarn_announces_about_the_containers_that_are_held(
    events: list[Event], tmp_path: Path
) -> None:
    file = tmp_path / "responses.jsonl"
    file.touch()
    skein = FakeSkeinAm()
    with closing(ResponseLog(file)) as log:
        broker = SkeinBroker(skein, NODES.get, timing=QUICK, responses=Responses(log))
        broker.start(events.append)
        broker.ask(ask(A, B))
        one, two = sorted(skein.rows)
        skein.run(one, "n1:8042")
        skein.run(two, "n2:8042")
        until_polled(skein)
        events.clear()
        lines = [
            {"kind": "preemption", "strict": ["container_9", skein.rows[two].container],
             "negotiable": []},
            {"kind": "preemption", "strict": ["container_9"], "negotiable": []},
            {"kind": "node", "node": "n1:8041", "state": "DECOMMISSIONING", "timeout_s": 40},
            {"kind": "node", "node": "n1:8041", "state": "RUNNING"},
            {"kind": "node", "node": "n9:8041", "state": "DECOMMISSIONING", "timeout_s": 40},
        ]  # fmt: skip
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        wait_for(lambda: len(events) >= 2)
        until_polled(skein)
        broker.close()
        # A poll under way reads the log.
        for thread in threading.enumerate():
            if thread.name == "skein-poll":
                thread.join(10.0)
    told, leaving = events
    assert isinstance(told, ContainersMarked)
    assert told.asks == (B,)
    assert isinstance(leaving, NodeLeaving)
    assert (leaving.node, leaving.timeout_s) == ("n1", 40.0)
