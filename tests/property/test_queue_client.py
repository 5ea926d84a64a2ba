"""Whatever the wait queue and the cluster answer, and whenever: a job asks at most once for each
request, only by a snapshot and a claim of its own, and never stands still."""

from __future__ import annotations

import inspect
import textwrap
from collections import Counter
from types import ModuleType
from typing import Any

import pytest

from tests.property.queue_world import JOB, QueueWorld, Violation
from yarnam.core.queue_client import admission_wait, client_machine, policy_following, queue_record
from yarnam.core.queue_client.client_state import new_client

WALK = 250

AW = admission_wait


@pytest.mark.parametrize("seed", range(60))
def test_walks(seed: int) -> None:
    world = QueueWorld(seed)
    world.walk(WALK)


def test_the_walks_come_to_everything() -> None:
    counts = Counter[str]()
    for seed in range(60):
        world = QueueWorld(seed)
        world.walk(WALK)
        counts.update(world.counts)
    for action in (
        "AnswerPlan", "WriteTicket", "WriteRunning", "ReadTickets", "ReadPolicy", "ClaimTurn",
        "PollCluster", "ReadSnapshot", "Foresee", "Pause", "WakeAt", "Remember", "Send",
    ):  # fmt: skip
        assert counts[action] >= 3, (action, counts)


@pytest.mark.parametrize("seed", range(10))
def test_what_was_recorded_replays(seed: int) -> None:
    """A journal of events and moments leads to the same client and the same actions."""
    world = QueueWorld(seed)
    client = new_client(world.client.job)
    world.walk(WALK)
    for (event, moment), did in zip(world.seen, world.did, strict=True):
        client, actions = client_machine.step(client, event, moment)
        assert actions == did
    assert client == world.client


MUTANTS: list[tuple[ModuleType, str, str, str]] = [
    (client_machine, "_reply", "elif serial == admission.awaits:", "elif True:"),
    (client_machine, "_reply", "if serial == ctx.client.record.writing:",
     "if ctx.client.record.writing:"),
    (AW, "_reply", "ctx.admit(stage=Stage.IDLE, awaits=0, entering=0, poll=None)",
     "ctx.admit(awaits=0, entering=0)"),
    (AW, "withdraw", "ctx.admit(stage=Stage.IDLE, awaits=0, entering=0, poll=None)", "pass"),
    (AW, "claim_ended", "if isinstance(decision, Ask) and not event.is_ours:", "if False:"),
    (AW, "_decide_if_ready", "if admission.last is not None and poll.snapshot.is_shared:",
     "if False:"),
    (AW, "queue_failed", "_lose_queue(ctx)", "pass"),
    (AW, "not_queued", "_decide_if_ready(ctx)", "pass"),
    (AW, "forecast_made", "_settle_down(ctx)", "pass"),
    (AW, "enter_without_patience", "_write_ticket(ctx)", "pass"),
    (queue_record, "failed", "ctx.do(WakeAt(due_at_s))", "pass"),
    (queue_record, "written", "write(ctx)", "pass"),
    (queue_record, "write", "if shown is None or record.writing or not client.is_connected:",
     "if shown is None or not client.is_connected:"),
]  # fmt: skip
"""A module, one of its functions, a line of it, and what a mistake would make of that line."""


@pytest.mark.parametrize(
    ("module", "name", "line", "mistake"),
    MUTANTS,
    ids=[f"{m[1]}-{i}" for i, m in enumerate(MUTANTS)],
)
def test_the_rules_find_a_mistake(
    module: ModuleType, name: str, line: str, mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = getattr(module, name)
    source = textwrap.dedent(inspect.getsource(original))
    assert line in source
    namespace: dict[str, Any] = {}
    exec(compile(source.replace(line, mistake), name, "exec"), module.__dict__, namespace)
    for user in (client_machine, policy_following, queue_record, admission_wait):
        if getattr(user, name, None) is original:
            monkeypatch.setattr(user, name, namespace[name])
    found = ""
    for seed in range(150):
        try:
            QueueWorld(seed).walk(WALK)
        except (Violation, AssertionError) as violation:
            found = str(violation)
            break
    assert found, "no walk has noticed"


def test_the_job_of_the_walks_takes_tickets() -> None:
    assert JOB.gang.ticket
