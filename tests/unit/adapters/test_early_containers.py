"""Containers declared at submit: taken over by asks, given back when nobody wants them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.fakes.cluster_view import FakeView, cluster
from tests.fakes.skein_am import FakeSkeinAm
from yarnam.adapters.skein.agent_assignment import await_assignment
from yarnam.adapters.skein.broker import SkeinBroker
from yarnam.adapters.skein.early_containers import (
    EarlyContainer,
    EarlyContainers,
    ViewWithoutEarly,
    assignment,
)
from yarnam.core.model.actions import AskContainer
from yarnam.core.model.events import ContainerGranted, Event
from yarnam.core.model.ids import AskId, NodeId, RackId
from yarnam.core.model.plans import LocalityLevel, PrelaunchedService, Target
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.errors import BadConfig, Unavailable, YarnamError
from yarnam.wire.protocol import assignment_key

SIZE = Resources(512, 1, 1)
TARGET = Target("worker-any", "worker", LocalityLevel.ANY, SIZE)
A, B, C = (AskId(1, "worker", number) for number in range(3))
NODES = {"n1:8042": (NodeId("n1"), RackId("/r1")), "n2:8042": (NodeId("n2"), RackId("/r2"))}


@pytest.fixture
def events() -> list[Event]:
    return []


def asks(*wanted: AskId) -> list[AskContainer]:
    return [AskContainer(one, TARGET) for one in wanted]


def wait_for(condition: Callable[[], bool], limit_s: float = 5.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


class Early:
    """A broker of a job that declared instances at submit: two of one service, one of another."""

    def __init__(self, events: list[Event], limit_s: float = 60.0) -> None:
        self.skein = FakeSkeinAm()
        self.skein.start_early("worker-any", 2)
        self.skein.start_early("worker-n0", 1)
        self.broker = SkeinBroker(
            self.skein,
            NODES.get,
            agent_env=lambda: {"YARNAM_AM_ADDRESS": "n1:4711"},
            early_containers=EarlyContainers(
                [
                    PrelaunchedService("worker-any", (NodeId("n1"), NodeId("n2"))),
                    PrelaunchedService("worker-n0", (NodeId("n2"),)),
                ],
                limit_s=limit_s,
            ),
        )
        self.broker.start(events.append)

    def told(self, container: str) -> dict[str, object]:
        loaded: dict[str, object] = json.loads(self.skein.store[assignment_key(container)])
        return loaded


def test_an_ask_takes_over_an_early_container(events: list[Event]) -> None:
    early = Early(events)
    first, second = early.skein.of_service("worker-any")
    early.skein.run(first, "n2:8042")
    early.broker.ask(asks(A))
    wait_for(lambda: len(events) == 1)
    assert isinstance(events[0], ContainerGranted)
    assert events[0].ask == A
    assert early.told("worker-any_0") == {
        "ask": str(A),
        "env": {"YARNAM_AM_ADDRESS": "n1:4711"},
    }
    # No container was asked for besides; what the gang does not want is given back at once.
    assert len(early.skein.rows) == 3
    assert set(early.skein.kills) == {second, *early.skein.of_service("worker-n0")}
    assert list(early.broker.unclaimed_early()) == []
    early.broker.release([A])
    early.broker.close()
    assert first in early.skein.kills


def test_an_ask_beyond_the_early_containers_goes_to_yarn(events: list[Event]) -> None:
    early = Early(events)
    early.broker.ask(asks(A, B, C))
    early.broker.close()
    assert len(early.skein.of_service("worker-any")) == 3
    assert early.skein.env[early.skein.of_service("worker-any")[2]]["YARNAM_ASK"] == str(C)


def test_others_are_asked_for_before_the_rest_is_given_back(events: list[Event]) -> None:
    """Skein would give them the priority of what was withdrawn (see ``SkeinBroker.ask``)."""
    early = Early(events)
    other = replace(TARGET, service="worker-n9", resources=Resources(4096, 4, 2))
    early.broker.ask([AskContainer(A, other)])
    early.broker.close()
    at_kill = [count for _, count in early.skein.rows_at_kill]
    assert at_kill == [4, 4, 4]


def test_early_containers_that_nobody_asks_for_are_given_back(events: list[Event]) -> None:
    early = Early(events, limit_s=0.2)
    assert len(early.broker.unclaimed_early()) == 3
    wait_for(lambda: len(early.skein.kills) == 3)
    early.broker.ask(asks(A))
    early.broker.close()
    assert len(early.skein.of_service("worker-any")) == 3
    assert events == []


def test_an_early_container_that_cannot_be_told_is_replaced(events: list[Event]) -> None:
    early = Early(events)
    first = early.skein.of_service("worker-any")[0]

    def refuse(key: str, value: bytes) -> None:
        raise Unavailable("PutKey: DEADLINE_EXCEEDED")

    early.skein.write_key = refuse  # type: ignore[method-assign]
    early.broker.ask(asks(A))
    assert first in early.skein.kills
    replacement = early.skein.of_service("worker-any")[2]
    early.skein.run(replacement, "n1:8042")
    wait_for(lambda: len(events) == 1)
    early.broker.close()
    assert isinstance(events[0], ContainerGranted)


# ---- the cluster without them ------------------------------------------------------------


def without_early(
    shown: ClusterSnapshot, unclaimed: list[EarlyContainer], granted: dict[NodeId, int]
) -> ClusterSnapshot:
    view = ViewWithoutEarly(FakeView(shown), [TARGET], lambda: unclaimed, lambda: granted)
    return view.snapshot("root.dl")


def test_our_own_early_containers_count_as_free() -> None:
    shown = cluster(nodes=2, gpus=8, used=3)
    shown = replace(shown, queue=replace(shown.queue, used=Resources(0, 0, 6)))
    unclaimed = [EarlyContainer("worker-any", NodeId("n1"))] * 2
    seen = without_early(shown, unclaimed, {NodeId("n1"): 2})
    assert [node.free.gpus for node in seen.nodes] == [7, 5]
    assert seen.queue.used.gpus == 4
    # YARN has placed one of them elsewhere.
    seen = without_early(shown, unclaimed, {NodeId("n1"): 1, NodeId("n2"): 1})
    assert [node.free.gpus for node in seen.nodes] == [6, 6]


def test_the_room_of_one_that_is_not_granted_may_be_another_jobs_by_now() -> None:
    shown = cluster(nodes=2, gpus=8, used=8)
    unclaimed = [EarlyContainer("worker-any", NodeId("n1"))] * 3
    assert without_early(shown, unclaimed, {}) == FakeView(shown).snapshot("root.dl")
    seen = without_early(shown, unclaimed, {NodeId("n2"): 1})
    assert [node.free.gpus for node in seen.nodes] == [0, 1]


def test_where_the_resource_manager_does_not_tell_none_is_granted() -> None:
    def silent() -> dict[NodeId, int]:
        raise Unavailable("the ResourceManager does not answer")

    shown = cluster(nodes=1, gpus=8, used=8)
    unclaimed = [EarlyContainer("worker-any", NodeId("n1"))]
    view = ViewWithoutEarly(FakeView(shown), [TARGET], lambda: unclaimed, silent)
    assert view.snapshot("root.dl").nodes[0].free.gpus == 0


def test_more_than_the_snapshot_shows_makes_no_node_larger_than_it_is() -> None:
    shown = cluster(nodes=1, gpus=8, used=1)
    unclaimed = [EarlyContainer("worker-any", NodeId("n1"))] * 3
    seen = without_early(shown, unclaimed, {NodeId("n1"): 3})
    assert seen.nodes[0].free == Resources(65536, 64, 8)


def test_without_early_containers_the_cluster_is_what_it_is() -> None:
    shown = cluster(nodes=2, used=3)
    view = ViewWithoutEarly(FakeView(shown), [TARGET], tuple, dict)
    assert view.snapshot(shown.queue.name) == FakeView(shown).snapshot(shown.queue.name)


# ---- the agent's side ----------------------------------------------------------------------


class Store:
    """Skein's key-value store: answers with what it is given, in turn."""

    def __init__(self, *answers: bytes | YarnamError | None) -> None:
        self.answers = list(answers)
        self.keys: list[str] = []

    def read_key(self, key: str) -> bytes | None:
        self.keys.append(key)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, YarnamError):
            raise answer
        return answer


def test_an_early_agent_waits_for_its_ask() -> None:
    told = assignment(A, {"YARNAM_AM_ADDRESS": "n1:4711"})
    store = Store(None, Unavailable("not yet"), told)
    found = await_assignment({"SKEIN_CONTAINER_ID": "n0_3"}, store, sleep=lambda s: None)
    assert found == {"YARNAM_ASK": str(A), "YARNAM_AM_ADDRESS": "n1:4711"}
    assert set(store.keys) == {assignment_key("n0_3")}


def test_an_early_agent_that_nobody_wants_leaves_and_says_so() -> None:
    clock = iter(range(1000))
    with pytest.raises(Unavailable, match=r"no ask for n0_3 in 10 s: .*has not asked"):
        await_assignment(
            {"SKEIN_CONTAINER_ID": "n0_3"},
            Store(),
            limit_s=10.0,
            now_s=lambda: float(next(clock)),
            sleep=lambda s: None,
        )


@pytest.mark.parametrize("told", [b"\xff", b"[]", b'{"ask": "1"}'])
def test_an_assignment_that_makes_no_sense_is_refused(told: bytes) -> None:
    with pytest.raises(BadConfig, match="makes no sense"):
        await_assignment({"SKEIN_CONTAINER_ID": "n0_3"}, Store(told))


def test_outside_of_a_container_there_is_nothing_to_wait_for() -> None:
    with pytest.raises(BadConfig, match="SKEIN_CONTAINER_ID"):
        await_assignment({}, Store())
