"""One contract for the containers of an earlier AM attempt: the fake, and the real broker over what
the interceptor writes and reads."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from tests.fakes.container_broker import FakeBroker
from tests.fakes.skein_am import FakeSkeinAm
from yarnam.adapters.skein import adopted_containers
from yarnam.adapters.skein.adopted_containers import AdoptedContainers
from yarnam.adapters.skein.broker import BrokerTiming, SkeinBroker
from yarnam.adapters.skein.response_log import ResponseLog
from yarnam.adapters.skein.responses import Responses
from yarnam.core.model.actions import AdoptedTask
from yarnam.core.model.events import ContainerEnded, ContainerGranted, ContainersMarked, Event
from yarnam.core.model.ids import AskId, ContainerId, NodeId, RackId
from yarnam.core.model.outcomes import ContainerEnd
from yarnam.ports import ContainerBroker

ASKS = [AskId(1, "worker", number) for number in range(3)]
IDS = [ContainerId(f"container_1700000000000_0001_01_00000{number + 2}") for number in range(3)]
TASKS = [AdoptedTask(ask, name, NodeId("n1")) for ask, name in zip(ASKS, IDS, strict=True)]
QUICK = BrokerTiming(eager_poll_s=0.02, calm_poll_s=0.02, idle_poll_s=0.02)


class Yarn(Protocol):
    broker: ContainerBroker

    def keep(self, containers: Sequence[ContainerId]) -> None: ...
    def end(self, container: ContainerId, exit_status: int, text: str) -> None: ...
    def released(self) -> list[ContainerId]: ...


class FakeYarn:
    def __init__(self) -> None:
        self.broker = FakeBroker()
        self.broker.keeps = True
        self._kept: list[ContainerId] = []

    def keep(self, containers: Sequence[ContainerId]) -> None:
        self._kept += containers
        for ask, name in zip(ASKS, IDS, strict=True):
            if name in containers:
                grant = ContainerGranted(0.0, ask, name, NodeId("n1"), RackId("/r1"))
                self.broker.granted[ask] = grant

    def end(self, container: ContainerId, exit_status: int, text: str) -> None:
        ends = {-102: ContainerEnd.PREEMPTED, -100: ContainerEnd.LOST, 0: ContainerEnd.EXITED}
        self.broker.end(ASKS[IDS.index(container)], ends[exit_status], text)

    def released(self) -> list[ContainerId]:
        held = {grant.container for grant in self.broker.granted.values()}
        return [one for one in self._kept if one not in held]


class SkeinYarn:
    def __init__(self, folder: Path) -> None:
        self.log, self.releases = folder / "responses.jsonl", folder / "releases"
        self.log.touch()
        self.source = ResponseLog(self.log)
        self.broker = SkeinBroker(
            FakeSkeinAm(),
            lambda address: None,
            responses=Responses(self.source),
            releases=self.releases,
            am_attempt=2,
            timing=QUICK,
        )

    def close(self) -> None:
        self.broker.close()
        self.broker._thread.join(5.0)
        self.source.close()

    def write(self, *lines: object) -> None:
        with self.log.open("a", encoding="ascii") as log:
            log.write("".join(json.dumps(line) + "\n" for line in lines))

    def keep(self, containers: Sequence[ContainerId]) -> None:
        self.write({"kind": "kept", "containers": list(containers)}, {"kind": "registered"})

    def end(self, container: ContainerId, exit_status: int, text: str) -> None:
        status = {"container": container, "exit_status": exit_status, "diagnostics": text}
        self.write({"kind": "completed", **status})

    def released(self) -> list[ContainerId]:
        if not self.releases.exists():
            return []
        return list(map(ContainerId, self.releases.read_text(encoding="ascii").split()))


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture(params=["fake", "skein"])
def yarn(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Yarn]:
    if request.param == "fake":
        yield FakeYarn()
        return
    real = SkeinYarn(tmp_path)
    yield real
    real.close()


def until(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


def test_what_yarn_has_kept_is_told_once_at_the_start(yarn: Yarn, events: list[Event]) -> None:
    yarn.keep(IDS)
    assert sorted(yarn.broker.start(events.append)) == IDS
    assert yarn.released() == []


@pytest.mark.parametrize(
    ("status", "text", "end"),
    [
        (-102, "Container preempted by scheduler", ContainerEnd.PREEMPTED),
        (-100, "Container released on a *lost* node", ContainerEnd.LOST),
        (0, "Completed successfully.", ContainerEnd.EXITED),
    ],
)
def test_the_end_of_an_adopted_container_is_told_once(
    yarn: Yarn, events: list[Event], status: int, text: str, end: ContainerEnd
) -> None:
    yarn.keep(IDS)
    yarn.broker.start(events.append)
    yarn.broker.adopt(TASKS)
    yarn.end(IDS[1], status, text)
    until(lambda: events)
    (event,) = events
    assert isinstance(event, ContainerEnded)
    assert (event.ask, event.end, event.diagnostics) == (ASKS[1], end, text)


def test_an_adopted_container_is_released_by_its_ask(yarn: Yarn, events: list[Event]) -> None:
    yarn.keep(IDS)
    yarn.broker.start(events.append)
    yarn.broker.adopt(TASKS)
    yarn.broker.release([ASKS[2], ASKS[2]])
    assert yarn.released() == [IDS[2]]
    assert events == []


def test_what_nothing_adopts_is_given_back(yarn: Yarn, events: list[Event]) -> None:
    yarn.keep(IDS)
    yarn.broker.start(events.append)
    yarn.broker.release_kept(IDS[:2])
    yarn.broker.adopt(TASKS[2:])
    assert yarn.released() == IDS[:2]
    assert events == []


def test_one_that_yarn_has_not_kept_has_ended(
    yarn: Yarn, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adopted_containers, "UNREPORTED_LIMIT_S", 0.1)
    yarn.keep(IDS[:2])
    yarn.broker.start(events.append)
    yarn.broker.adopt(TASKS)
    until(lambda: events)
    (event,) = events
    assert isinstance(event, ContainerEnded)
    assert (event.ask, event.end) == (ASKS[2], ContainerEnd.FAILED)


# ---- the real one -----------------------------------------------------------------------------


@pytest.fixture
def real(tmp_path: Path) -> Iterator[SkeinYarn]:
    made = SkeinYarn(tmp_path)
    yield made
    made.close()


def test_an_end_that_came_with_the_first_heartbeat_says_how(
    real: SkeinYarn, events: list[Event]
) -> None:
    real.keep(IDS[:2])
    real.end(IDS[2], -102, "Container preempted by scheduler")
    real.broker.start(events.append)
    real.broker.adopt(TASKS)
    until(lambda: events)
    (event,) = events
    assert isinstance(event, ContainerEnded)
    assert (event.ask, event.end) == (ASKS[2], ContainerEnd.PREEMPTED)


def test_a_mark_on_an_adopted_container_is_heard(real: SkeinYarn, events: list[Event]) -> None:
    real.keep(IDS)
    real.broker.start(events.append)
    real.broker.adopt(TASKS)
    real.write({"kind": "preemption", "strict": [IDS[0]], "negotiable": []})
    until(lambda: events)
    (event,) = events
    assert isinstance(event, ContainersMarked)
    assert replace(event, at_s=0.0) == ContainersMarked(0.0, (ASKS[0],))


def test_what_comes_after_the_registration_is_given_back(
    real: SkeinYarn, events: list[Event]
) -> None:
    real.keep(IDS[:2])
    real.broker.start(events.append)
    real.broker.adopt(TASKS[:2])
    real.write({"kind": "kept", "containers": [IDS[2]]})
    until(lambda: real.released() == [IDS[2]])
    assert events == []


def test_without_the_note_of_the_registration_nothing_is_adopted(tmp_path: Path) -> None:
    log = tmp_path / "responses.jsonl"
    log.write_text(json.dumps({"kind": "kept", "containers": IDS}) + "\n", encoding="ascii")
    waits: list[float] = []
    now = iter(range(100))
    with closing(ResponseLog(log)) as source:
        adopted = AdoptedContainers(
            Responses(source), tmp_path / "r", now_s=lambda: next(now), sleep=waits.append
        )
        assert adopted.kept() == ()
    assert waits
    assert AdoptedContainers(Responses(), tmp_path / "r").kept() == (), "no interceptor"
