"""Whatever happens to a job, its ledger accounts for all of its time and of its GPUs, once."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence

import pytest

from tests.golden.journals import FOLDER, VERSION_1
from tests.property.gang_world import ENDED, World, random_walk, small_job, troubled_run
from yarnam.core.accounting.ledger import RESOLUTION_S, account_all, ledger
from yarnam.core.gang import initial, policy_for, step
from yarnam.core.model.events import Event, TrainingReported
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import Ledger, Phase, Use
from yarnam.wire.codec import from_plain

WAIT_BEFORE_S = 30.0


def held_gpu_s(job: JobSpec, events: Iterable[Event]) -> tuple[float, int, int]:
    """By a count of its own: GPU seconds, and how many times, by how many GPUs, it changed."""
    gang, policy = initial(job), policy_for(job)
    at_s, total, changes, most = 0.0, 0.0, 0, 0
    for event in events:
        is_over = gang.phase in ENDED
        holding = () if is_over else [m for m in gang.everyone if m.is_holding]
        gpus = sum(member.target.resources.gpus for member in holding)
        total += gpus * max(0.0, event.at_s - at_s) if at_s else 0.0
        at_s = max(at_s, event.at_s)
        gang, _ = step(gang, event, policy)
        changes += 1
        most = max(most, gpus)
    return total, changes, most


def reported(job: JobSpec, events: Sequence[Event], dice: random.Random) -> list[Event]:
    """The same journal with reports of a training that saves and restores, or not."""
    gang, policy = initial(job), policy_for(job)
    woven: list[Event] = []
    steps, saved, uses_sdk = 0, 0, dice.random() < 0.7
    resumed: int | None = None
    for event in events:
        before = gang.attempt
        if gang.phase is Phase.RUNNING:
            steps += dice.randrange(50)
            saved = dice.randrange(saved, steps + 1) if uses_sdk and steps > saved else saved
            number = gang.attempt - dice.randrange(2) if dice.random() < 0.2 else gang.attempt
            at_s = event.at_s if dice.random() < 0.5 else event.at_s - dice.random()
            woven.append(
                TrainingReported(
                    at_s, number, steps, resumed, saved if uses_sdk else None,
                    dice.random() * 5,
                )
            )  # fmt: skip
        woven.append(event)
        gang, _ = step(gang, event, policy)
        if gang.attempt != before:
            resumed = saved if uses_sdk else None
            steps = resumed or 0
    return woven


def check(job: JobSpec, events: Sequence[Event]) -> Ledger:
    since_s = events[0].at_s - WAIT_BEFORE_S
    gang, accounts = account_all(job, since_s, events)
    end_s = max(event.at_s for event in events)
    found = ledger(accounts, gang, end_s)
    expected_s = (gang.verdict.decided_at_s if gang.verdict else end_s) - since_s
    assert found.wall_s == pytest.approx(expected_s, rel=1e-3, abs=RESOLUTION_S)
    assert [entry.use for entry in found.entries] == list(Use)
    assert all(entry.wall_s >= -1e-9 and entry.gpu_s >= -1e-9 for entry in found.entries)
    assert 0.0 <= found.ettr <= 1.0
    gpu_s, changes, most = held_gpu_s(job, events)
    assert found.gpu_s == pytest.approx(gpu_s, abs=most * RESOLUTION_S * changes)
    return found


@pytest.mark.parametrize(
    "path", [*sorted(FOLDER.iterdir()), *sorted(VERSION_1.iterdir())], ids=lambda path: path.stem
)
def test_golden_journals(path: object) -> None:
    first, *rest = path.read_bytes().splitlines()  # type: ignore[attr-defined]
    job = from_plain(json.loads(first), JobSpec)
    events = [from_plain(json.loads(line)["event"], Event) for line in rest[:-1]]  # type: ignore[arg-type]
    found = check(job, events)
    assert found.of(Use.WAITING).wall_s >= WAIT_BEFORE_S


@pytest.mark.parametrize("walk", [random_walk, troubled_run])
def test_random_walks(walk: object) -> None:
    seen: set[Use] = set()
    for seed in range(60):
        dice = random.Random(seed)
        is_staged, output = dice.random() < 0.3, dice.choice(("", "/out"))
        job = small_job(
            with_ps=dice.random() < 0.5,
            is_staged=is_staged,
            output=output,
            has_pre_run=seed % 3 == 0,
        )
        world = World(job)
        walk(world, seed, moves=80)  # type: ignore[operator]
        seen |= {e.use for e in check(world.job, world.seen).entries if e.wall_s > 0}
        woven = reported(world.job, world.seen, dice)
        seen |= {e.use for e in check(world.job, woven).entries if e.wall_s > 0}
    assert Use.HELD in seen or walk is troubled_run, "it grants all containers together"
    assert seen >= {Use.WAITING, Use.LOCALIZING, Use.STARTING, Use.KEPT, Use.LOST, Use.RECOVERING}
    assert seen >= {Use.CHECKPOINTING, Use.PRE_RUN}
