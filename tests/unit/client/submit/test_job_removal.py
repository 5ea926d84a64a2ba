"""Directories of ended jobs leave HDFS, and what is asked of the jobs is answered all the same."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.unit.client.world import World, job_spec, status, verdict
from yarnam.adapters.hdfs.history_store import HistoryStore
from yarnam.client.functions.call_results import note_fetched
from yarnam.client.submit.leftovers.abandoned import KEY_KEPT_S, clear_abandoned
from yarnam.client.submit.leftovers.job_removal import MOST_REMOVED, remove_old
from yarnam.client.user_paths import new_key
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_retention import KEPT_S
from yarnam.core.model.job_spec import CheckpointSpec
from yarnam.core.model.job_status import JobState, OutputStatus
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import Unavailable, UsageError
from yarnam.wire.codec import encode
from yarnam.wire.protocol import FETCHED_DIRECTORY
from yarnam.wire.records import JobRecord
from yarnam.wire.shared.path_claim import PathClaim, encode_claim

ENDED_S = time.time() - KEPT_S - 86400.0


class Ended:
    """A job that YARN has forgotten, with all that it leaves."""

    count = 0

    def __init__(self, world: World, *, ended_s: float = ENDED_S, **changes: Any) -> None:
        Ended.count += 1
        self.world, self.ended_s = world, ended_s
        self.application = f"application_1700000000000_{Ended.count:04}"
        self.key = new_key(ENDED_S - 3600.0)
        self.directory = world.directory(self.key)
        world.job(application=self.application, key=self.key)
        del world.rm.apps[self.application]
        job = job_spec(**changes)
        record = JobRecord(job, (), self.directory, ended_s, "0", rm_url=world.rm.url)
        world.put(self.key, "job.json", encode(record))
        self.put("verdict.json", encode(verdict()))
        left = status(JobState.SUCCEEDED, application=self.application)
        self.put("status.json", encode(left))
        self.put("journal/000001", b"")
        self.put("files/0-code.tar.gz", b"code")
        world.files.write_bytes(world.site.paths.application(self.application), self.key.encode())
        kept = HistoryRecord(
            self.key, self.application, "hello", "me", "root.dl", ended_s - 60, ended_s,
            verdict(message="all well"), step=70, restarts=2,
        )  # fmt: skip
        HistoryStore(world.files, world.site.paths.history).put(kept)
        self.age()

    def put(self, name: str, content: bytes) -> None:
        self.world.put(self.key, name, content)

    def age(self) -> None:
        for each in self.world.files.list(self.directory):
            self.world.files.set_times(each.path, round(self.ended_s * 1000))

    @property
    def is_there(self) -> bool:
        return self.world.files.exists(self.directory)

    def why_kept(self) -> str:
        self.age()
        found = {each.key: each for each in remove_old(self.world.site, is_trial=True)}
        return found[self.key].why_kept


def test_a_submit_removes_old_directories_and_what_names_them(world: World) -> None:
    old, young = Ended(world), Ended(world, ended_s=time.time() - 86400.0)
    clear_abandoned(world.site)
    assert (old.is_there, young.is_there) == (False, True)
    assert not world.files.exists(world.site.paths.application(old.application))
    assert not [path for path in world.left_on_hdfs() if ".clock-" in path]


def test_more_go_than_a_submit_adds_and_the_counts_are_flat(world: World) -> None:
    for _ in range(3 * MOST_REMOVED):
        Ended(world)
    counts = []
    for _ in range(4):
        clear_abandoned(world.site)
        counts.append(len(world.files.list(world.site.paths.jobs)))
    assert counts == [2 * MOST_REMOVED, MOST_REMOVED, 0, 0]
    assert not world.files.list(f"{world.site.paths.root}/applications")


@pytest.mark.parametrize(
    ("files", "changes", "reason"),
    [
        ({}, {"keeps_files": True}, "keep: forever"),
        ({"checkpoints/step-1": b""}, {}, "checkpoints"),
        ({"results/0": b""}, {}, "results"),
        ({}, {"output": "hdfs:///out"}, "output is not stored"),
        (
            {"status.json": encode(status(JobState.FAILED, output=OutputStatus("/out", 3)))},
            {"output": "hdfs:///out"},
            "output is not stored",
        ),
        ({"job.json": b"another version"}, {}, "JSON"),
    ],
)
def test_jobs_that_are_still_needed_stay(
    world: World, files: dict[str, bytes], changes: dict[str, Any], reason: str
) -> None:
    job = Ended(world, **changes)
    for name, content in files.items():
        job.put(name, content)
    assert reason in job.why_kept()
    clear_abandoned(world.site)
    assert job.is_there


def test_stored_outputs_and_fetched_results_hold_no_job(world: World) -> None:
    job = Ended(world, output="hdfs:///out")
    stored = OutputStatus("/out", 3, 5, 3, is_stored=True)
    job.put("status.json", encode(status(JobState.SUCCEEDED, output=stored)))
    assert job.why_kept() == ""
    job.put("results/0", b"value")
    assert "results" in job.why_kept()
    note_fetched(world.site, job.directory)
    assert world.files.exists(f"{job.directory}/{FETCHED_DIRECTORY}")
    assert job.why_kept() == ""


def test_a_job_without_a_record_or_that_yarn_runs_stays(world: World) -> None:
    running, unrecorded = Ended(world), Ended(world)
    world.rm.add(running.application, state="RUNNING", tags=("yarnam", f"yarnam-job-{running.key}"))
    world.job(application=running.application, key=running.key)
    running.age()
    world.files.delete(f"{world.site.paths.history}/new/{unrecorded.key}.json")
    assert "history has no record" in unrecorded.why_kept()
    remove_old(world.site)
    assert (running.is_there, unrecorded.is_there) == (True, True)


def test_a_trial_removes_nothing_and_an_interrupted_removal_is_completed(world: World) -> None:
    job = Ended(world)
    (found,) = remove_old(world.site, is_trial=True)
    assert (found.key, found.application, found.why_kept) == (job.key, job.application, "")
    assert job.is_there
    world.files.delete(world.site.paths.application(job.application))
    assert len(remove_old(world.site)) == 1
    assert not job.is_there


def test_a_removed_job_answers_from_the_history(world: World) -> None:
    job = Ended(world)
    remove_old(world.site)
    handle = world.client.job(job.application)
    found = handle.status()
    assert (found.state, found.reason, found.step, found.restarts) == (
        JobState.SUCCEEDED, "all well", 70, 2,
    )  # fmt: skip
    assert found.verdict is not None
    assert found.verdict.kind is VerdictKind.SUCCEEDED
    for ask in (handle.events, handle.record):
        with pytest.raises(UsageError, match=f"the files of {job.application} were removed"):
            ask()
    with pytest.raises(Unavailable, match="YARN has no logs"):
        list(handle.logs())


def test_idempotency_records_outlive_the_jobs() -> None:
    assert KEY_KEPT_S > KEPT_S


def test_the_claims_of_a_removed_job_go_and_those_of_others_stay(world: World) -> None:
    mine = Ended(world, checkpoint=CheckpointSpec("/ckpt/mine"))
    other = Ended(world, checkpoint=CheckpointSpec("/ckpt/other"))
    for path, key in (("mine", mine.key), ("other", new_key())):
        claim = PathClaim(key, "me", "hello", world.rm.url)
        world.files.write_bytes(f"/ckpt/{path}/.yarnam-claim", encode_claim(claim))
    removed = remove_old(world.site)
    assert {job.key for job in removed if not job.why_kept} == {mine.key, other.key}
    assert not world.files.exists("/ckpt/mine/.yarnam-claim")
    assert world.files.exists("/ckpt/other/.yarnam-claim")
