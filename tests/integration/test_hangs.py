"""A rank that is stopped hangs its gang: it is found, named, and the gang goes on."""

from __future__ import annotations

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import MARKS
from tests.integration.ring_program import JOIN_RING
from yarnam.core.model.events import GangHung
from yarnam.core.model.outcomes import FailureClass

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job
    from yarnam.core.model.job_status import JobStatus

pytestmark = MARKS

STEP_S = 0.2
STRIDE = 100_000
AIM_S = 10.0 + 3 * STEP_S
"""Until the right rank is named, on a machine that is not busy."""
NOTICE_S = 20.0
"""The same on one that is."""
HANGS = int(os.environ.get("YARNAM_CHAOS_HANGS", "20"))
GANGS = 4
"""At once: each of them hangs that many times less often."""
SEED = int(os.environ.get("YARNAM_CHAOS_SEED", "27300"))

# Every rank needs a byte of every other one in each step, as in a ring; all wait without a limit.
RING = f"""
import os, socket, sys, time
from yarnam import train
rank, size = train.rank(), train.world_size()
base = {{base}}
# It goes on where it was: attempts that get no further than those before end the job.
done = {STRIDE} * int(os.environ["YARNAM_ATTEMPT"])
{JOIN_RING}
def exchange():
    right.sendall(b"x")
    if not left.recv(1):
        sys.exit(1)
for step in range(1, {{steps}} + 1):
    time.sleep({STEP_S})
    exchange()
    if step == 5:
        with train.pause("evaluation"):
            time.sleep({{pause}})
    {{more}}
    train.report(step=done + step)
"""

HONEST = """
    if step == 1:
        time.sleep(20)  # compiles
    if step % 40 == 0:
        with train.pause("evaluation"):
            time.sleep(12)
    if step % 60 == 0 and rank == 0:
        with train.pause("checkpoint"):
            time.sleep(9)
    if step % 70 == 30 and rank == 1:
        time.sleep(8)  # waits for its input
    if step == 100:
        import traceback
        try:
            [].pop()
        except IndexError:
            traceback.print_exc()
        time.sleep(8)
"""
HONEST_STEPS = int(os.environ.get("YARNAM_HONEST_STEPS", "240"))

FAILS = """
    if step == 15 and rank == 1:
        import threading
        threading.Thread(target=threading.Event().wait).start()
        import no_such_module
"""
"""As programs whose libraries wait for the others at exit."""
RANKS = 3


def submitted(
    world: FaultWorld, name: str, base: int, *, steps: int, pause: float = 0.0, more: str = ""
) -> Job:
    code = RING.format(base=base, steps=steps, pause=pause, more=more.strip())
    return world.submit(
        name, ["python3", "-c", code], worker={"tasks": RANKS, "gpus": 1}, framework="command",
        retry={"max_restarts": 99},
    )  # fmt: skip


def steps_of_attempt(attempt: int, steps: int) -> Callable[[JobStatus], bool]:
    return lambda status: (status.step or 0) >= STRIDE * attempt + steps


def stop_one(world: FaultWorld, job: Job, attempt: int, dice: random.Random) -> tuple[int, float]:
    """Stops a random rank once the gang has steps enough; which it is, and when."""
    world.until(job, steps_of_attempt(attempt, 12), "some steps")
    rank = dice.randrange(RANKS)
    os.kill(pid_of(world, job, rank), signal.SIGSTOP)
    return rank, time.time()


def pid_of(world: FaultWorld, job: Job, rank: int) -> int:
    marker = f"YARNAM_RANK={rank}".encode()
    (pid,) = [
        pid
        for pid in world.pids(job, "create_server")
        if marker in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    ]
    return pid


def named(world: FaultWorld, job: Job, seed: int, times: int) -> list[float]:
    """Seconds until each stopped rank was named."""
    dice = random.Random(seed)
    took = []
    for number in range(1, times + 1):
        rank, at_s = stop_one(world, job, number, dice)
        world.until(job, lambda s, n=number: len(world.events(job, GangHung)) == n, "a hang")  # type: ignore[misc]
        event = world.events(job, GangHung)[-1]
        assert event.ranks == (rank,), event
        assert event.finding.failure is FailureClass.HANG
        took.append(event.at_s - at_s)
        others = [text for text in event.where if not text.startswith(f"rank {rank}:")]
        assert any("exchange" in text for text in others), event.where
    return took


@pytest.mark.long
def test_a_stopped_rank_is_named_and_the_gang_goes_on(world: FaultWorld) -> None:
    job = submitted(world, "hangs", 27100, steps=1000)
    took = named(world, job, 27100, 3)
    assert max(took) <= NOTICE_S, took
    world.until(job, steps_of_attempt(4, 3), "steps again")
    history = job.status().history
    assert history[0].outcome.startswith("the gang hung (hang: no step for")
    cause = history[0].cause
    assert cause is not None
    assert cause.ended == "hung"
    job.kill("its test is over")
    assert job.wait(60)
    world.assert_cleared(job)


@pytest.mark.long
def test_a_pause_is_no_hang(world: FaultWorld) -> None:
    job = submitted(world, "pauses", 27200, steps=12, pause=12.0)
    assert world.end_of(job).exit_code == 0
    assert world.events(job, GangHung) == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_run_with_honest_pauses_is_left_alone(world: FaultWorld) -> None:
    """It compiles, evaluates, saves, waits for input, prints an exception that it has caught, and
    is stopped for some seconds by somebody who looks at it. YARNAM_HONEST_STEPS makes it longer."""
    job = submitted(world, "honest", 27400, steps=HONEST_STEPS, more=HONEST)
    for number in range(1, 4):
        steps = HONEST_STEPS // 4 * number
        world.until(job, lambda s, n=steps: (s.step or 0) >= STRIDE + n, "some steps")  # type: ignore[misc]
        pid = pid_of(world, job, number % RANKS)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(pid, signal.SIGCONT)
    assert world.end_of(job).exit_code == 0
    assert world.events(job, GangHung) == []
    assert len(job.status().history) == 1


@pytest.mark.long
def test_a_rank_that_fails_and_does_not_exit_is_the_cause(world: FaultWorld) -> None:
    """One of its threads is no daemon, and the others wait for it in the ring."""
    job = submitted(world, "no-exit", 27500, steps=1000, more=FAILS)
    verdict = world.end_of(job)
    assert verdict.exit_code != 0
    assert len(job.status().history) == 1, verdict
    (attempt,) = job.status().history
    assert attempt.cause is not None
    assert attempt.cause.finding.failure is FailureClass.IMPORT_ERROR
    assert attempt.cause.rank == 1


@pytest.mark.chaos
@pytest.mark.timeout(60 * HANGS // GANGS + 180)
def test_a_stopped_rank_is_named_each_time(world: FaultWorld) -> None:
    """As often as YARNAM_CHAOS_HANGS says, in some gangs at once."""

    def run(number: int) -> list[float]:
        job = submitted(world, f"hangs-{number}", 27300 + 10 * number, steps=100_000)
        took = named(world, job, SEED + number, HANGS // GANGS)
        job.kill("its test is over")
        assert job.wait(60)
        return took

    with ThreadPoolExecutor(GANGS) as pool:
        took = sorted(one for some in pool.map(run, range(GANGS)) for one in some)
    early = sum(one <= AIM_S for one in took)
    print(f"named after {took[len(took) // 2]:.1f} s (median), {took[-1]:.1f} s at most; ", end="")
    print(f"{early} of {len(took)} within {AIM_S:.1f} s; load {os.getloadavg()[0]:.0f}")
    print(" ".join(f"{one:.1f}" for one in took))
    assert took[-1] <= NOTICE_S, took
