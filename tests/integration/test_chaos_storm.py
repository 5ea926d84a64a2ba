"""The second tier's storm: faults of every kind at random moments, on a cluster of its own.

``YARNAM_CHAOS_ROUNDS`` says how many faults, ``YARNAM_CHAOS_AT_ONCE`` how many at the same time at
most, ``YARNAM_CHAOS_MINUTES`` after how many minutes no more begin, and ``YARNAM_CHAOS_SEED`` plays
a storm again: the schedule of faults comes from the seed alone. What they meet hangs on the
machine's speed too, so each is printed with its time, its victim and the phase of the job.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import wait_until_idle
from tests.fakes.dripping import Dripping
from tests.integration.fault_world import MARKS, FaultWorld
from tests.integration.rm_books import read_books, shares
from tests.integration.storm import HOME, Storm
from tests.integration.storm_ends import (
    keep_records,
    left_in_zookeeper,
    left_on_hdfs,
    left_on_nodes,
    torn,
    until_nothing,
    wrong_verdicts_of_left,
)
from tests.integration.storm_faults import KINDS, NEEDS_MOUNT, schedule, small_disk
from tests.integration.storm_net import PAIR_DATANODE_HOST, StormNet
from tests.integration.storm_world import await_ends, own_cluster, partial_starts
from yarnam.client.submit.leftovers.abandoned import SCRATCH_PREFIX, clear_abandoned

ROUNDS = int(os.environ.get("YARNAM_CHAOS_ROUNDS", "50"))
AT_ONCE = int(os.environ.get("YARNAM_CHAOS_AT_ONCE", "3"))
BEGIN_BY_S = 60.0 * float(os.environ.get("YARNAM_CHAOS_MINUTES", ROUNDS))
ENDS_S = 300.0
"""From the last fault until all jobs have ended: each needs some seconds, an AM that has lost its
node half a minute until YARN starts the next."""

LIMIT_S = 1800.0 + 60.0 * ROUNDS

pytestmark = [*MARKS, pytest.mark.zookeeper, pytest.mark.chaos, pytest.mark.timeout(LIMIT_S)]

SMALL_DISK, SMALL_DISK_MIB = "nm4", 512
DISK_CHECKS = "    yarn.nodemanager.disk-health-checker.interval-ms: 2000\n"


@pytest.fixture
def storm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storm]:
    seed = int(os.environ.get("YARNAM_CHAOS_SEED", time.time_ns() % 1_000_000))
    with ExitStack() as stack:
        cluster = stack.enter_context(
            own_cluster(f"storm-{os.getpid()}", tmp_path / "cluster", DISK_CHECKS)
        )
        has_disk = stack.enter_context(small_disk(cluster, SMALL_DISK, tmp_path, SMALL_DISK_MIB))
        from tests.integration.ha_hdfs import ha_hdfs

        pair = stack.enter_context(ha_hdfs(cluster, tmp_path / "pair", PAIR_DATANODE_HOST))
        net = StormNet(cluster, tmp_path, pair)
        stack.callback(net.close)
        # What killed clients leave on this machine is the storm's own.
        (tmp_path / "scratch").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
        monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
        for name, value in net.variables.items():  # submit reads one of them from this process's
            monkeypatch.setenv(name, value)
        world = FaultWorld(cluster, tmp_path, conf_dir=net.conf, variables=net.variables)
        stack.callback(world.close)
        stack.callback(world.end_all)
        disk = SMALL_DISK if has_disk else ""
        receiver = Dripping(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        stack.callback(receiver.close)
        url = f"http://127.0.0.1:{receiver.port}/"
        raging = Storm(world, net, pair, tmp_path / "jobs", seed, receiver=url, small_disk=disk)
        raging.folder.mkdir()
        raging.files.mkdirs(HOME)
        yield raging


def test_the_schedule_comes_from_the_seed_alone() -> None:
    plan = schedule(7, 200, KINDS)
    assert plan == schedule(7, 200, reversed(KINDS))
    assert plan != schedule(8, 200, KINDS)
    assert {fault.kind for fault in plan} == set(KINDS)


def test_whatever_dies_hangs_or_fills_every_job_ends_well_and_nothing_stays(storm: Storm) -> None:
    left_out = () if storm.small_disk else NEEDS_MOUNT
    kinds = [kind for kind in KINDS if kind not in left_out]
    print(f"\nstorm: seed {storm.seed}, {ROUNDS} faults of {len(kinds)} kinds, {AT_ONCE} at once")
    print(f"  on the {storm.cluster.plan.shape.scheduler} scheduler")
    for kind in left_out:
        print(f"  left out: {kind}: this user may not mount a file system")
    try:
        rage_and_judge(storm, kinds)
    except BaseException as error:
        print(f"  {type(error).__name__}: {error}")
        print(f"  logs and events of all jobs: {keep_records(storm)}")
        raise


def rage_and_judge(storm: Storm, kinds: list[str]) -> None:
    storm.measure_submit()
    storm.rage(schedule(storm.seed, ROUNDS, kinds), BEGIN_BY_S, AT_ONCE)
    raged_s = time.monotonic() - storm.began_s
    wrong = await_ends(storm.runs, ENDS_S) + wrong_verdicts_of_left(storm)
    ended_s = time.time()
    for (kind, phase), count in sorted(storm.phases.items()):
        print(f"  {count:3d} x {kind} at {phase}")
    assert not wrong, "\n".join(wrong)
    unused = [relay.address for relay in storm.net.always_used() if not relay.served]
    assert not unused, f"nothing went through the relays {unused}"
    assert not (broken := torn(storm)), "\n".join(broken)
    assert_nothing_is_left(storm)
    books = read_books(*storm.logs, storm.cluster.daemon("rm").log)
    assert not (partial := partial_starts(storm.runs, books)), partial
    wanted = {run.job.id: run.gang.all_gpus for run in storm.runs}
    launches = sum(len(run.launches()) for run in storm.runs)
    masters = sum(run.job.status().am_attempt for run in storm.runs)
    print(
        f"  seed {storm.seed}: {storm.phases.total()} faults in {raged_s:.0f} s;"
        f" {len(storm.runs)} jobs succeeded with {launches} launches and {masters}"
        f" ApplicationMasters; {len(storm.left_alone)} submits killed or measured;"
        f" {shares(books, wanted, ended_s)}"
    )


def assert_nothing_is_left(storm: Storm) -> None:
    storm.world.until_nodes_are_back()
    left = wait_until_idle(storm.cluster, 60.0)
    assert not left, left
    for run in storm.runs:
        storm.world.assert_cleared(run.job)
    left = until_nothing(lambda: left_in_zookeeper(storm.cluster))
    left += until_nothing(lambda: left_on_nodes(storm.cluster))
    left += until_nothing(lambda: left_after_clients(storm))
    assert not left, "\n".join(left)


def left_after_clients(storm: Storm) -> list[str]:
    """When later submits have cleared what killed clients had left, as they do from a day after."""
    clear_abandoned(storm.world.site, older_than_s=0.0)
    scratch = Path(tempfile.gettempdir()).glob(f"{SCRATCH_PREFIX}*")
    return [str(path) for path in scratch] + left_on_hdfs(storm)
