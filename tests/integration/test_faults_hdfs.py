"""HDFS that hangs or is down, at submit and while a job runs."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.fault_world import LIMIT_S, MARKS, waiting_for
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import ExitCode

if TYPE_CHECKING:
    from tests.integration.fault_world import FaultWorld

pytestmark = [*MARKS, pytest.mark.timeout(900)]

SUBMIT_LIMIT_S = 60.0
"""For a submit to say that HDFS does not answer: each question to it has 8 s, and some follow each
other."""


@contextmanager
def frozen(world: FaultWorld) -> Iterator[None]:
    """A NameNode that takes connections and never answers."""
    world.cluster.daemon("nn").kill(signal.SIGSTOP)
    try:
        yield
    finally:
        world.cluster.daemon("nn").kill(signal.SIGCONT)


@contextmanager
def down(world: FaultWorld) -> Iterator[None]:
    """No NameNode at all."""
    world.cluster.daemon("nn").kill()
    try:
        yield
    finally:
        world.cluster.daemon("nn").start()


@pytest.mark.long
def test_a_namenode_that_hangs_at_submit(world: FaultWorld) -> None:
    path = world.write(world.document("hdfs-hangs", ["true"]))
    with frozen(world):
        done = world.yarnam("submit", str(path)).wait(SUBMIT_LIMIT_S)
    assert done.code == ExitCode.UNAVAILABLE, done
    assert "HDFS" in done.err, done
    assert "yarnam doctor" in done.err, done
    assert "Traceback" not in done.err, done


@pytest.mark.long
def test_an_outage_while_a_job_runs(world: FaultWorld, tmp_path: Path) -> None:
    """The processes go on; what ends meanwhile is written down as soon as HDFS is back. Whoever
    watches is told, and is there at the end."""
    flag = tmp_path / "end"
    job = world.submit("hdfs-outage", waiting_for(flag))
    world.until_phase(job, Phase.RUNNING)
    watch = world.yarnam("watch", job.id, "--json")
    watch.until_it_speaks()
    with down(world):
        refused = world.yarnam("submit", str(world.folder / "hdfs-outage.yaml")).wait(
            SUBMIT_LIMIT_S
        )
        assert refused.code == ExitCode.UNAVAILABLE, refused
        assert "HDFS" in refused.err, refused
        assert len(world.pids(job)) >= 4, "the job's processes go on"
        # Both processes end now: the AM cannot write that down.
        flag.touch()
        time.sleep(5.0)
        assert watch.process.poll() is None, watch.wait()
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    outcomes = [attempt.outcome for attempt in job.status().history]
    assert len(outcomes) == 1, f"an outage of HDFS costs no attempt: {outcomes}"
    done = watch.wait(LIMIT_S)
    assert done.code == 0, done
    world.assert_cleared(job)


@pytest.mark.long
def test_a_namenode_that_hangs_while_a_gang_is_acquired(world: FaultWorld) -> None:
    job = world.submit("hdfs-hangs-early", ["true"])
    with frozen(world):
        time.sleep(12.0)
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    world.assert_cleared(job)
