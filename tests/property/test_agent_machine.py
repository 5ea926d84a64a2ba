"""Whatever the ApplicationMaster, the node and the processes do, and whenever: an agent starts each
launch at most once, leaves no process behind, and never stands still."""

from __future__ import annotations

import inspect
import textwrap
from collections import Counter
from types import ModuleType
from typing import Any

import pytest

from tests.property.agent_machine_world import AgentWorld, Violation
from yarnam.agent.machine import agent_actions as aa
from yarnam.agent.machine import (
    agent_context,
    agent_machine,
    agent_transitions,
    task_errands,
    task_launch,
    task_stop,
    task_watch,
)
from yarnam.agent.machine.agent_context import AgentStep
from yarnam.agent.machine.agent_state import AgentPhase, AgentState

WALK = 250


@pytest.mark.parametrize("seed", range(100))
def test_walks(seed: int) -> None:
    AgentWorld(seed).walk(WALK)


def test_the_walks_come_to_every_action_and_phase() -> None:
    counts, phases = Counter[str](), set()
    for seed in range(100):
        world = AgentWorld(seed)
        world.walk(WALK)
        counts.update(world.counts)
        phases.add(world.agent.phase)
    kinds = [kind for kind in vars(aa).values() if getattr(kind, "__module__", "") == aa.__name__]
    of_tuples = {kind.__name__ for kind in kinds if issubclass(kind, tuple)}
    wanted = of_tuples | {command.name for command in aa.Command}
    assert not {name for name in wanted if counts[name] < 3}
    assert phases >= {AgentPhase.LEFT, AgentPhase.RUNNING, AgentPhase.EXITED}


@pytest.mark.parametrize("seed", range(20))
def test_a_recorded_walk_replays(seed: int) -> None:
    world = AgentWorld(seed)
    world.walk(WALK)
    agent = AgentState(world.facts)
    for (event, moment), did in zip(world.seen, world.did, strict=True):
        agent, actions = agent_machine.step(agent, event, moment)
        assert actions == did
    assert agent == world.agent


MUTANTS: list[tuple[Any, str, str, str]] = [
    (agent_machine, "_follow", "or event.serial != am.polling", ""),
    (agent_machine, "_follow", "if event.number == am.seen:", "if False:"),
    (agent_machine, "_follow", "ctx.poll()", "pass"),
    (agent_machine, "step", "event.attempt == agent.run.attempt", "True"),
    (agent_machine, "step", "if ctx.has_fired(event.timer, event.serial):", "if True:"),
    (AgentStep, "end_check", "self.do(Cancel(self.agent.checking.serial))", "return"),
    (task_errands, "stage", "ctx.do(Cancel(ctx.agent.staging.serial))", "pass"),
    (task_errands, "is_of_directive", "0 < event.serial == ctx.agent.staging.serial", "True"),
    (task_errands, "is_awaited", "0 < event.serial == ctx.agent.checking.serial", "True"),
    (task_errands, "retry_tokens",
     "ctx.start_timer(AgentTimer.TOKENS, RETRY_TOKENS_S)", "pass"),
    (task_launch, "is_new", "launch.attempt > run.attempt", "launch.attempt >= run.attempt"),
    (task_launch, "is_awaited", "0 < event.serial == ctx.run.serial", "True"),
    (task_launch, "begin", "if ctx.facts.is_staged:", "if False:"),
    (task_launch, "begin", "ctx.end_check()", "pass"),
    (task_launch, "ports_retaken", "if not bare:", "if True:"),
    (task_launch, "planned", "if run.taken:", "if False:"),
    (task_launch, "planned", "run.launch.role == PRE_RUN_ROLE", "False"),
    (task_launch, "checkpoint_tried", "_restore(ctx)", "_start(ctx)"),
    (task_launch, "_restore", "if ctx.run.is_mirrored:", "if False:"),
    (task_launch, "_start", "ctx.start_timer(AgentTimer.ACTIVITY, ACTIVITY_PERIOD_S)", "pass"),
    (task_stop, "is_for_run", "order.attempt >= ctx.run.attempt", "True"),
    (task_stop, "has_no_processes", "not ctx.run.has_processes", "True"),
    (task_stop, "_stop_and_leave",
     "ctx.do(StopAndWait(grace_s, reason, grace_s + STOP_MARGIN_S))", "pass"),
    (task_watch, "is_abandoned", "return ctx.run.is_abandoned", "return False"),
    (task_watch, "is_accountable", "not ctx.run.is_abandoned", "True"),
    (task_watch, "end_watch", "ctx.stop_timer(AgentTimer.PORTS)", "pass"),
    (task_watch, "_poll_activity",
     "ctx.start_timer(AgentTimer.ACTIVITY, ACTIVITY_PERIOD_S + LATE_S)", "pass"),
    (task_watch, "ports_checked", "and not keys & event.held", ""),
    (task_watch, "ports_checked", "if event.taken:", "if False:"),
    (task_watch, "ports_checked", "ctx.start_timer(AgentTimer.PORTS, after_s)", "pass"),
    (task_watch, "_give_up_ports", "_abandon(ctx)", "pass"),
    (task_watch, "is_of_run", "order.attempt == ctx.run.attempt", "True"),
]  # fmt: skip
"""A module or class, one of its functions, a part of it, and what a mistake would make of that."""


@pytest.mark.parametrize(
    ("place", "name", "part", "mistake"),
    MUTANTS,
    ids=[f"{m[1]}-{i}" for i, m in enumerate(MUTANTS)],
)
def test_the_rules_find_a_mistake(
    place: Any, name: str, part: str, mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = getattr(place, name)
    source = textwrap.dedent(inspect.getsource(original))
    assert part in source
    namespace: dict[str, Any] = {}
    home = agent_context if place is AgentStep else place
    code = compile(source.replace(part, mistake), name, "exec", flags=0x1000000)
    exec(code, home.__dict__, namespace)
    mutant = namespace[name]
    monkeypatch.setattr(place, name, mutant)
    _put_into_table(original, mutant, monkeypatch)
    found = ""
    for seed in range(150):
        try:
            AgentWorld(seed, agent_machine.step).walk(WALK)
        except (Violation, AssertionError) as violation:
            found = str(violation)
            break
    assert found, "no walk has noticed"


def _put_into_table(original: Any, mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows hold the functions themselves."""
    for phase, rows in agent_transitions.TABLE.items():
        changed = tuple(
            row._replace(
                do=mutant if row.do is original else row.do,
                when=mutant if row.when is original else row.when,
            )
            for row in rows
        )
        by_key = agent_transitions._by_key(changed)
        monkeypatch.setitem(agent_transitions.HANDLERS, phase, by_key)  # type: ignore[arg-type]


def test_there_is_a_mutant_of_every_part_of_the_machine() -> None:
    parts = {task_errands, task_launch, task_stop, task_watch, agent_machine}
    assert {place for place, *_ in MUTANTS if isinstance(place, ModuleType)} == parts
