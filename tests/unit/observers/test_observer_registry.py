"""The table of observers, and what the ApplicationMaster does with it."""

from __future__ import annotations

import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.serial_executor import InlineSerialExecutor
from tests.fakes.task_mailbox import FakeMailbox
from tests.unit.gang.play import Play, job
from yarnam.am.probes import gang_observers
from yarnam.am.probes.gang_observers import GangObservers
from yarnam.core.model.events import ConditionChanged, Event
from yarnam.core.observers.observer import Observation, View, condition_observer
from yarnam.core.observers.observer_registry import OBSERVERS
from yarnam.spec.sections.document import Document


def test_names_are_unique_and_sections_are_sections_of_the_spec() -> None:
    names = [observer.name for observer in OBSERVERS]
    assert len(set(names)) == len(names)
    for observer in OBSERVERS:
        assert not observer.section or observer.section in Document.model_fields


@pytest.mark.asyncio
async def test_an_observer_that_fails_silences_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(state: int, view: View) -> tuple[int, Observation]:
        raise ValueError(state)

    def finds(state: int, view: View) -> tuple[int, Observation]:
        event = ConditionChanged(view.now_s, view.gang.attempt, "second", f"look {state}")
        return state + 1, Observation((event,))

    rows = (
        condition_observer("first", "", 0, fails),
        condition_observer("second", "", 0, finds),
    )
    monkeypatch.setattr(gang_observers, "OBSERVERS", rows)
    events: list[Event] = []
    observers = GangObservers(
        job(), FakeMailbox(), InlineSerialExecutor(), FakeClock(), events.append
    )
    gang = Play(job()).to_running().gang
    for _ in range(2):
        await observers.observe(gang, (), ())
    assert [event.message for event in events if isinstance(event, ConditionChanged)] == [
        "look 0",
        "look 1",
    ]
