"""Tasks lost and preempted in the simulator: the gang machine's own recovery, in virtual time."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tests.sim.scenes import cluster, job
from yarnam.cli.setup.sim_command import command
from yarnam.core.model.outcomes import ContainerEnd
from yarnam.sim import Fault, Mode, Outcome, SimJob, SimSettings, Workload, faults, simulate

pytestmark = pytest.mark.sim

OURS = [Mode.TICKETS, Mode.JITTER]


def play(mode: Mode, jobs: list[SimJob], nodes: int, *faults: Fault) -> Outcome:
    rm = cluster(nodes)
    return simulate(Workload(tuple(jobs)), SimSettings(mode, rm=rm, faults=faults, limit_s=1e6))


def node_of(outcome: Outcome, number: int) -> int:
    return next(c.node for c in outcome.containers if c.job == number)


@pytest.mark.parametrize("mode", OURS)
def test_a_lost_task_is_replaced_in_place_and_work_goes_on_from_the_checkpoint(mode: Mode) -> None:
    jobs = [job(0, 16, runs_s=5000.0)]
    node = node_of(play(mode, jobs, 4), 0)
    outcome = play(mode, jobs, 4, Fault(2000.0, node))
    [record] = outcome.records
    assert not record.is_failed
    assert record.attempts == 2
    # Three checkpoints of 600 s were there: at most one interval is trained again.
    assert 5000.0 < (record.ended_s or 0.0) < 5000.0 + 600.0 + 60.0
    assert len(outcome.containers) == 3, "more than the lost task was asked for"


@pytest.mark.parametrize("mode", OURS)
def test_a_preempted_gang_goes_as_one_and_comes_back(mode: Mode) -> None:
    jobs = [job(0, 16, runs_s=5000.0)]
    node = node_of(play(mode, jobs, 4), 0)
    outcome = play(mode, jobs, 4, Fault(2000.0, node, ContainerEnd.PREEMPTED))
    [record] = outcome.records
    assert not record.is_failed
    assert record.attempts == 2
    assert len(outcome.containers) == 4, "it kept something"


@pytest.mark.parametrize("mode", OURS)
def test_a_gang_that_finds_no_replacement_gives_the_rest_back(mode: Mode) -> None:
    """The node stays away for longer than the recovery waits: others may have the GPUs."""
    jobs = [job(0, 16, runs_s=1000.0), job(1, 8, at_s=100.0, runs_s=300.0)]
    outcome = play(mode, jobs, 2, Fault(500.0, 1, away_s=3000.0))
    large, small = outcome.records
    assert not large.is_failed
    assert not small.is_failed
    assert (small.stood_s or 0.0) < (large.ended_s or 0.0)
    assert all(container.freed_s is not None for container in outcome.containers)


@pytest.mark.parametrize("mode", OURS)
def test_with_many_mishaps_all_jobs_end_and_nothing_is_held(mode: Mode) -> None:
    jobs = [job(n, 4 + 4 * (n % 3), at_s=20.0 * n, runs_s=400.0) for n in range(30)]
    kinds = (ContainerEnd.LOST, ContainerEnd.PREEMPTED)
    hits = [Fault(100.0 * n + 37.0, n % 6, kinds[n % 2], 120.0) for n in range(25)]
    outcome = play(mode, jobs, 6, *hits)
    assert all(record.ended_s is not None for record in outcome.records)
    assert all(container.freed_s is not None for container in outcome.containers)
    assert sum(record.attempts for record in outcome.records) > 35, "hardly any was hit"
    assert sum(record.is_failed for record in outcome.records) <= 3


def test_drawn_mishaps_are_those_asked_for_in_order_and_the_same_again() -> None:
    rm = cluster(6)
    drawn = faults(1000.0, rm, 3, lost=4, preempted=7)
    assert drawn == faults(1000.0, rm, 3, lost=4, preempted=7)
    assert drawn != faults(1000.0, rm, 4, lost=4, preempted=7)
    assert [m.at_s for m in drawn] == sorted(m.at_s for m in drawn)
    assert all(0.0 <= m.at_s <= 1000.0 and 0 <= m.node < 6 for m in drawn)
    ends = [m.end for m in drawn]
    assert (ends.count(ContainerEnd.LOST), ends.count(ContainerEnd.PREEMPTED)) == (4, 7)


def test_by_the_command_jobs_that_are_hit_start_again_and_end() -> None:
    small = ["--jobs", "40", "--nodes", "8", "--rack", "4", "--json"]
    hit = ["--lost-nodes", "6", "--preemptions", "6"]
    quiet, hard = (
        json.loads(CliRunner().invoke(command, [*small, *more]).output)[3:] for more in ([], hit)
    )
    for before, after in zip(quiet, hard, strict=True):
        assert after["finished"] + after["failed"] == 40
        assert after["attempts_per_job"] > before["attempts_per_job"]


def test_launchers_that_do_not_start_again_are_not_hit() -> None:
    done = CliRunner().invoke(command, ["--mode", "hold", "--lost-nodes", "1"])
    assert done.exit_code == 2
    assert "only with the modes tickets and jitter" in done.output


def test_a_preempted_gang_returns_to_its_place_in_the_queue() -> None:
    """It holds the whole cluster until one of its nodes is preempted. The other job came later."""
    jobs = [job(0, 16, runs_s=3000.0), job(1, 16, at_s=10.0, runs_s=3000.0)]
    outcome = play(Mode.TICKETS, jobs, 2, Fault(1000.0, 1, ContainerEnd.PREEMPTED))
    first, second = outcome.records
    assert (second.stood_s or 0.0) > (first.ended_s or 0.0)
