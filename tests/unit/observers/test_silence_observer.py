"""A gang that does nothing for half an hour is reported, and so is a program without steps."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.gang.play import Play, job
from yarnam.am.probes.gang_observers import view_of
from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.gang.gang_status import describe
from yarnam.core.model.events import ConditionChanged
from yarnam.core.model.job_spec import HangSpec, JobSpec
from yarnam.core.model.job_status import Phase
from yarnam.core.observers.observer_registry import status_lines
from yarnam.core.observers.silence_observer import SILENCE, SILENT_S, WATCH_AFTER_S

SPEC = job(processes=1)


class World:
    """Two workers of one process each."""

    def __init__(self, spec: JobSpec = SPEC) -> None:
        self.spec = spec
        self.play = Play(spec).to_running()
        self.state = SILENCE.initial

    def look(self, *idle_s: float, **of_first: object) -> list[tuple[str, str]]:
        """One look, at processes that have been idle for so long."""
        ranks = [
            RankActivity(ask, rank, idle_s=idle)
            for rank, (ask, idle) in enumerate(zip(self.play.asks(), idle_s, strict=False))
        ]
        if of_first:
            ranks[0] = replace(ranks[0], **of_first)  # type: ignore[arg-type]
        view = view_of(self.play.gang, self.spec, self.play.now_s, (), ranks)
        self.state, found = SILENCE.observe(self.state, view)
        events = [event for event in found.events if isinstance(event, ConditionChanged)]
        for event in events:
            self.play.send(event)
        return [(event.type, event.message) for event in events]

    @property
    def lines(self) -> list[str]:
        status = describe(self.play.gang, self.play.now_s)
        return [line.text for line in status_lines(status, 0.0)]


def test_half_an_hour_without_anything_is_a_finding_that_restarts_nothing() -> None:
    world = World()
    assert world.look(SILENT_S, SILENT_S - 1) == [], "one of them is active"
    [(name, text)] = world.look(SILENT_S, SILENT_S + 9)
    assert (name, "30m00s" in text, "hang.silence" in text) == ("silence", True, True)
    assert world.look(SILENT_S + 60, SILENT_S + 60) == [], "one report is enough"
    assert world.play.gang.phase is Phase.RUNNING
    assert world.lines == [f"silence: {text}"]
    assert world.look(1.0, SILENT_S + 90) == [("silence", "")]
    assert world.lines == []


def test_a_pause_is_exempt_and_so_is_a_process_that_has_not_reported() -> None:
    world = World()
    assert world.look(SILENT_S, SILENT_S, pause="evaluates") == []
    assert world.look(SILENT_S) == []


def test_services_are_exempt() -> None:
    spec = job(processes=1, ps=1)
    roles = tuple(replace(role, optional=role.name == "ps") for role in spec.roles)
    world = World(replace(spec, roles=roles))
    asks = world.play.asks()
    [ps] = [ask for ask in asks if ask.role == "ps"]
    workers = [ask for ask in asks if ask.role != "ps"]
    ranks = [RankActivity(ask, 0, idle_s=SILENT_S) for ask in workers]
    busy = RankActivity(ps, 9, idle_s=0.0)
    view = view_of(world.play.gang, world.spec, world.play.now_s, (), [busy, *ranks])
    _, found = SILENCE.observe(world.state, view)
    assert len(found.events) == 1, "a service that is busy hides nothing"
    quiet = [replace(busy, idle_s=SILENT_S), *(replace(rank, idle_s=0.0) for rank in ranks)]
    view = view_of(world.play.gang, world.spec, world.play.now_s, (), quiet)
    assert SILENCE.observe(world.state, view)[1].events == ()


def test_hang_detection_that_is_off_is_off() -> None:
    assert World(replace(SPEC, hang=HangSpec(detect=False))).look(SILENT_S, SILENT_S) == []


def test_a_program_without_steps_is_told_that_nobody_watches_it_and_the_key() -> None:
    world = World()
    assert world.look(0.0, 0.0) == []
    world.play.after(WATCH_AFTER_S)
    [(name, text)] = world.look(0.0, 0.0)
    assert (name, "hang.silence" in text) == ("hang-watch", True)
    assert world.lines == [f"hang-watch: {text}"]
    assert world.look(0.0, 0.0, has_stepped=True) == [("hang-watch", "")]


def test_a_program_that_is_watched_is_not_told() -> None:
    for spec in (SPEC, replace(SPEC, hang=HangSpec(silence_s=3600.0))):
        world = World(spec)
        steps = {"has_stepped": spec is SPEC}
        world.look(0.0, 0.0, **steps)
        world.play.after(WATCH_AFTER_S)
        assert world.look(0.0, 0.0, **steps) == []
