"""Agents and ApplicationMasters that are killed: the job recovers as designed, or ends with
the documented verdict; nothing of it stays behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import AM, JAVA_AM, LIMIT_S, MARKS, kill_now, long_until
from yarnam.core.model.events import (
    AgentSilent,
    AmRestarted,
    ContainerEnded,
    JitterDrawn,
    TimerFired,
    TimerKind,
)
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import ExitCode

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.long, pytest.mark.timeout(900)]

AT_ONCE = 3

NOTICED_S = 10.0
"""A promise of the project: from an agent's end (or its silence) until the AM acts upon it."""

INTERVAL_S = 3
"""How long a failed attempt of that job's AM counts."""

NOT_ADOPTED = {"absence": "0s"}
"""The containers end with their AM. ``test_am_adoption`` has the others."""

SELDOM: dict[str, Any] = {
    "retry": {"max_restarts": 0},
    "am": {"attempts": 2, "attempts_interval": f"{INTERVAL_S}s", **NOT_ADOPTED},
}

JOBS: dict[str, dict[str, Any]] = {
    "agent-sigkill": {"retry": {"max_restarts": 1}},
    "agent-sigstop": {"retry": {"max_restarts": 1}},
    "agent-last": {"retry": {"max_restarts": 0}},
    "am-python": {"retry": {"max_restarts": 0}, "am": NOT_ADOPTED},
    "rarely-python": SELDOM,
    "rarely-java": SELDOM,
    "twice-python": {"am": {"attempts": 2}},
    "once-java": {"am": {"attempts": 1}},
}

# They start together: none shall wait for another one's node.
ANYWHERE = {"locality": {"node": "unconstrained", "rack": "unconstrained"}}

# All nodes are this machine: what is done to its agents speaks against no node, on which another
# task of the gang may be well.
NO_GRUDGE = {"blacklist": {"strikes": 0}}

GANG = {"hold_timeout": "2min", "backoff": {"base": "200ms", "cap": "1s"}}


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job whose flag is there ends well as soon as it is started again."""
    return tmp_path_factory.mktemp("flags")


@pytest.fixture(scope="module")
def jobs(world: FaultWorld, flags: Path) -> Mapping[str, Job]:
    """All of them run together; each waits for its own fault."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        submitted = {
            name: pool.submit(
                world.submit,
                f"loses-{name}",
                long_until(flags / name),
                gang=GANG,
                placement=ANYWHERE,
                **{**changes, "retry": {**changes.get("retry", {}), **NO_GRUDGE}},
            )
            for name, changes in JOBS.items()
        }
        return {name: future.result() for name, future in submitted.items()}


def noticed_at_s(world: FaultWorld, job: Job, after_s: float) -> float:
    """When the AM heard first that an agent or a container is no more."""
    losses = [*world.events(job, AgentSilent), *world.events(job, ContainerEnded)]
    return min(event.at_s for event in losses if event.at_s >= after_s)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_an_agent_that_is_no_more_is_noticed_and_the_gang_starts_again(
    world: FaultWorld, jobs: Mapping[str, Job], flags: Path, number: signal.Signals
) -> None:
    """SIGKILL: gone; SIGSTOP: there, but silent, as on a machine that hangs."""
    name = f"agent-{number.name.lower()}"
    job = jobs[name]
    running = world.until_phase(job, Phase.RUNNING)
    harmed_at_s = time.time()
    world.signal_agent(job, running.tasks[1].container, number)
    (flags / name).touch()
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    assert noticed_at_s(world, job, harmed_at_s) - harmed_at_s < NOTICED_S
    *_, first, second = job.status().history
    assert "worker-1" in first.outcome, first
    assert "restart 1 of 1, in place" in first.outcome, first
    assert (second.asked, second.granted, second.kept) == (1, 1, 1)
    world.assert_cleared(job)


def test_a_gang_without_restarts_ends_with_the_reason(
    world: FaultWorld, jobs: Mapping[str, Job]
) -> None:
    job = jobs["agent-last"]
    running = world.until_phase(job, Phase.RUNNING)
    lost = running.tasks[0]
    world.signal_agent(job, lost.container, signal.SIGKILL)
    done = world.yarnam("watch", job.id).wait()
    assert done.code == ExitCode.ATTEMPTS_EXHAUSTED, done
    assert f"{lost.task} on {lost.node}" in done.out, done
    assert "retry.max_restarts" in done.out, done
    world.assert_cleared(job)


def test_the_ams_python_is_killed(world: FaultWorld, jobs: Mapping[str, Job], flags: Path) -> None:
    """A second AM attempt reads the journal, backs off, and runs the gang to its end; it was
    nobody's fault, so no attempt and no restart is used up."""
    job = jobs["am-python"]
    before = world.until_phase(job, Phase.RUNNING)
    kill_now(world.am_pid(job, AM))
    (flags / "am-python").touch()
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    assert [event.am_attempt for event in world.events(job, AmRestarted)] == [2]
    after = job.events()[job.events().index(world.events(job, AmRestarted)[0]) :]
    assert any(isinstance(event, JitterDrawn) for event in after), "it has backed off"
    assert any(
        isinstance(event, TimerFired) and event.timer.kind is TimerKind.BACKOFF for event in after
    )
    status = job.status()
    assert (status.am_attempt, status.attempt) == (2, before.attempt + 1)
    assert status.max_attempts == before.max_attempts
    assert status.free_attempts == before.free_attempts + 1, "no attempt is used up"
    assert "ApplicationMaster was started again" in status.history[-2].outcome
    world.assert_cleared(job)


@pytest.mark.parametrize("part", [AM, JAVA_AM])
def test_an_am_that_dies_now_and_then(
    world: FaultWorld, jobs: Mapping[str, Job], flags: Path, part: str
) -> None:
    """Three deaths are more than ``am.attempts``, but each earlier one is longer ago than counts.
    The last two attempts are last ones by number."""
    name = "rarely-python" if part == AM else "rarely-java"
    job = jobs[name]
    for attempt in (1, 2, 3):
        world.until(job, lambda s, n=attempt: s.am_attempt == n, f"AM attempt {attempt}")
        world.until_phase(job, Phase.RUNNING)
        if attempt > 1:
            time.sleep(INTERVAL_S)
        kill_now(world.am_pid(job, part))
    (flags / name).touch()
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    assert [event.am_attempt for event in world.events(job, AmRestarted)] == [2, 3, 4]
    world.assert_cleared(job)


@pytest.mark.parametrize("part", [AM, JAVA_AM])
def test_an_am_that_may_not_come_back(
    world: FaultWorld, jobs: Mapping[str, Job], part: str
) -> None:
    job = jobs["twice-python" if part == AM else "once-java"]
    if part == AM:
        world.until_phase(job, Phase.RUNNING)
        kill_now(world.am_pid(job, part))
        world.until(job, lambda status: status.am_attempt == 2, "second AM")
    world.until_phase(job, Phase.RUNNING)
    kill_now(world.am_pid(job, part))
    done = world.yarnam("watch", job.id).wait(LIMIT_S)
    assert done.code == ExitCode.ATTEMPTS_EXHAUSTED, done
    assert "the ApplicationMaster failed" in done.out, done
    assert f"yarnam logs {job.id} --am" in done.out, done
    print(done)
    world.assert_cleared(job)
