"""Two jobs and one directory: which submit is refused, by which name, and what frees the claim."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client.world import World, job_spec, status
from yarnam.adapters import submitter
from yarnam.adapters.hdfs.claim_files import ClaimFile
from yarnam.client import Job
from yarnam.client.submit.claims import claim_decision, job_claims
from yarnam.client.submit.idempotency import IdempotencyKey
from yarnam.client.submit.upload import JobUpload
from yarnam.client.user_paths import tag_of
from yarnam.core.model.job_spec import CheckpointSpec, JobSpec
from yarnam.core.model.job_status import JobState
from yarnam.errors import (
    ExitCode,
    NeverFits,
    NoPermission,
    PathTaken,
    Unavailable,
    UsageError,
    WireMismatch,
    YarnamError,
)
from yarnam.wire.shared.path_claim import PathClaim, claimed_paths, encode_claim

CKPT = "/ckpt/a"
CLAIM = f"{CKPT}/.yarnam-claim"
OTHER_KEY = "20260101-000000-abcdef"
DEAD = submitter.this_process().rpartition(" ")[0] + " 1"
"""This process's number, by another start: the process has ended."""


def saving(directory: str = CKPT, **changes: Any) -> JobSpec:
    return job_spec(checkpoint=CheckpointSpec(directory), **changes)


def claimed(world: World, **changes: Any) -> PathClaim:
    """The claim of another job, which lies there already."""
    values: dict[str, Any] = {
        "key": OTHER_KEY, "user": "me", "name": "train", "cluster": world.rm.url, **changes,
    }  # fmt: skip
    claim = PathClaim(**values)
    world.files.write_bytes(CLAIM, encode_claim(claim), overwrite=True)
    return claim


def test_a_second_submit_is_refused_by_the_firsts_name(world: World) -> None:
    first = world.client.submit(saving())
    world.rm.change(first.id, state="ACCEPTED", name="first-job")
    with pytest.raises(PathTaken) as caught:
        world.client.submit(saving())
    error = caught.value
    assert error.exit_code is ExitCode.PATH_TAKEN
    for part in ("checkpoint.directory", CKPT, first.id, "first-job", "of me", "QUEUED"):
        assert part in error.message
    assert f"yarnam kill {first.id}" in error.hint
    assert "--takeover" in error.hint
    assert len(world.launcher.submitted) == 1


def test_the_refusal_names_file_and_line_of_the_key(world: World, tmp_path: Path) -> None:
    world.client.submit(saving())
    spec = tmp_path / "job.yaml"
    spec.write_text(
        "version: 1\nname: again\nqueue: root.dl\ncommand: [python3, train.py]\ngpus: 1\n"
        f"checkpoint:\n  directory: hdfs://memory{CKPT}/\n"
    )
    with pytest.raises(PathTaken, match=rf"^{spec}:7:3: checkpoint.directory: hdfs://memory{CKPT}"):
        world.client.submit(spec)


@pytest.mark.parametrize("same", [CKPT, f"{CKPT}/", f"hdfs://memory{CKPT}", f"hdfs://{CKPT}"])
def test_one_directory_has_one_claim_however_it_is_written(world: World, same: str) -> None:
    world.client.submit(saving())
    with pytest.raises(PathTaken):
        world.client.submit(saving(same))


def test_an_output_is_claimed_too(world: World) -> None:
    world.files.mkdirs("/results", 0o777)
    world.client.submit(job_spec(output="/results/a"))
    with pytest.raises(PathTaken, match=r"data\.outputs: /results/a belongs to application_"):
        world.client.submit(job_spec(output="/results/a"))
    world.client.submit(job_spec(output="/results/b"))


def test_a_job_refused_for_one_directory_holds_no_other(world: World) -> None:
    world.files.mkdirs("/results", 0o777)
    world.client.submit(job_spec(output="/results/a"))
    with pytest.raises(PathTaken):
        world.client.submit(saving(output="/results/a"))
    assert not world.files.exists("/ckpt")
    world.client.submit(saving())


def test_jobs_that_write_nowhere_or_on_the_nodes_are_free(world: World) -> None:
    for job in (job_spec(), saving("file:///tmp/a"), saving(f"{CKPT}/below")):
        world.client.submit(job)
        if job.checkpoint.directory.startswith(CKPT):
            continue
        world.client.submit(job)
    world.client.submit(saving())  # a directory above is another one


@pytest.mark.parametrize("state", ["FINISHED", "FAILED", "KILLED"])
def test_the_claim_of_a_job_that_yarn_says_has_ended_is_taken_over(
    world: World, state: str
) -> None:
    first = world.client.submit(saving())
    world.rm.change(first.id, state=state, final_status="FAILED")
    second = world.client.submit(saving())
    with pytest.raises(PathTaken, match=second.id):
        world.client.submit(saving())
    assert [status.path for status in world.files.list(CKPT)] == [CLAIM]


def test_of_several_at_one_instant_one_wins(world: World) -> None:
    barrier = threading.Barrier(5)
    claimed(world)
    world.rm.add("application_1_1", state="KILLED", tags=("yarnam", tag_of(OTHER_KEY)))

    def submit(_: int) -> Job | PathTaken:
        barrier.wait()
        try:
            return world.client.submit(saving())
        except PathTaken as error:
            return error

    with ThreadPoolExecutor(5) as pool:
        results = list(pool.map(submit, range(5)))
    (won,) = [result for result in results if isinstance(result, Job)]
    assert [app for app in world.rm.apps.values() if not app.is_over] == [world.rm.apps[won.id]]
    found = ClaimFile(world.files, CKPT, claimed_paths(saving())[0]).read()
    assert found is not None
    assert found.claim is not None
    assert tag_of(found.claim.key) in world.rm.apps[won.id].tags


def test_another_users_claim_is_refused_by_that_name_with_takeover_too(world: World) -> None:
    claimed(world, user="you")
    world.rm.add("application_1_1", user="you", tags=("yarnam", tag_of(OTHER_KEY)))
    with pytest.raises(PathTaken, match=r"application_1_1 \(hello, of you\)") as caught:
        world.client.submit(saving(), takeover=True)
    assert "ask you" in caught.value.hint
    assert "takeover" not in caught.value.hint
    assert world.rm.killed == []


def test_a_claim_that_another_user_has_put_there_ends_no_job(world: World) -> None:
    claimed(world)
    world.rm.add("application_1_1", tags=("yarnam", tag_of(OTHER_KEY)))
    world.files.chown(CLAIM, "mallory")
    with pytest.raises(PathTaken):
        world.client.submit(saving(), takeover=True)
    assert world.rm.killed == []


# ---- claims whose application YARN does not know -------------------------------------------------


def test_a_submit_under_way_is_refused_until_its_limit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed(world)
    with pytest.raises(PathTaken, match="submit is under way") as caught:
        world.client.submit(saving(), takeover=True)
    assert f"hdfs dfs -rm {CLAIM}" in caught.value.hint
    assert caught.value.application == ""
    monkeypatch.setattr(claim_decision, "UNDER_WAY_LIMIT_S", 0.0)
    world.client.submit(saving())


def test_a_job_that_ran_and_that_yarn_has_forgotten_has_ended(world: World) -> None:
    claimed(world)
    world.put(OTHER_KEY, "am.json", b"{}")
    world.client.submit(saving())


def test_a_killed_submit_holds_for_as_long_as_yarn_may_still_list_its_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_decision, "GONE_LIMIT_S", 0.6)
    claimed(world, submitter=DEAD)
    assert submitter.is_gone(DEAD)
    threading.Timer(
        0.2, lambda: world.rm.add("application_1_1", tags=("yarnam", tag_of(OTHER_KEY)))
    ).start()
    with pytest.raises(PathTaken, match="application_1_1"):
        world.client.submit(saving())
    world.rm.apps.clear()
    world.client.submit(saving())


def test_the_job_of_another_cluster_is_not_taken_for_ended(world: World) -> None:
    claimed(world, cluster="http://other:8088", submitter=DEAD)
    with pytest.raises(PathTaken, match="another cluster"):
        world.client.submit(saving(), takeover=True)


def test_after_a_failover_it_is_still_the_same_cluster(world: World) -> None:
    """Else nobody could ever use the directory of a submit that was killed before it."""
    claimed(world, cluster="http://rm2.example:8088", submitter=DEAD)
    world.client.submit(saving())


def test_an_equal_key_waits_only_for_what_comes_to_an_end(world: World) -> None:
    job = saving(idempotency_key="nightly")
    tag = IdempotencyKey(world.site, "nightly", lambda _: None).tag
    claimed(world, cluster="http://other:8088", submitter=DEAD, idempotency=tag)
    with pytest.raises(PathTaken, match="another cluster"):
        world.client.submit(job)


@pytest.mark.parametrize("error", [NoPermission("no"), Unavailable("away")])
def test_settings_that_cannot_be_read_prove_no_end_either(
    world: World, error: YarnamError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> dict[str, str]:
        raise error

    monkeypatch.setattr(world.rm, "settings", refuse)
    claimed(world, user="you", submitter=DEAD)
    with pytest.raises(PathTaken, match="of you"):
        world.client.submit(saving())


def test_a_resource_manager_that_hides_the_jobs_of_others_proves_no_end(world: World) -> None:
    world.rm.configuration["yarn.webapp.filter-entity-list-by-user"] = "true"
    claimed(world, user="you", submitter=DEAD)
    with pytest.raises(PathTaken, match="of you") as caught:
        world.client.submit(saving())
    assert "does not show" in caught.value.hint


@pytest.mark.parametrize("content", [b"", b"garbage", b"[" * 50_000, b'{"version":1,"key":"../x"}'])
def test_what_is_not_a_claim_is_replaced(world: World, content: bytes) -> None:
    world.files.write_bytes(CLAIM, content)
    first = world.client.submit(saving())
    with pytest.raises(PathTaken, match=first.id):
        world.client.submit(saving())


def test_the_claim_of_a_newer_yarnam_stays(world: World) -> None:
    world.files.write_bytes(CLAIM, b'{"version":99}')
    with pytest.raises(WireMismatch, match=CLAIM):
        world.client.submit(saving())
    assert world.files.read_bytes(CLAIM) == b'{"version":99}'


# ---- what frees a claim --------------------------------------------------------------------------


def test_a_refused_or_failed_submit_holds_nothing(world: World) -> None:
    with pytest.raises(NeverFits):
        world.client.submit(saving(name="x", roles=_too_large()))
    assert not world.files.exists("/ckpt")
    world.files.mkdirs(CKPT)

    def refuse(_: Any) -> None:
        raise UsageError("YARN refuses it")

    world.launcher.on_submit = refuse
    with pytest.raises(UsageError):
        world.client.submit(saving())
    assert world.files.list(CKPT) == []


def test_a_claim_that_a_failed_submit_could_not_remove_does_not_hold_its_own_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDFS was away when the submit failed, and a notebook or a worker submits again."""
    monkeypatch.setattr(claim_decision, "GONE_LIMIT_S", 0.3)

    def refuse(_: Any) -> None:
        raise Unavailable("no answer from the ResourceManager")

    def away(*_: Any) -> None:
        raise Unavailable("HDFS is away")

    world.launcher.on_submit = refuse
    release = ClaimFile.release
    monkeypatch.setattr(ClaimFile, "release", away)
    with pytest.raises(Unavailable):
        world.client.submit(saving())
    monkeypatch.setattr(ClaimFile, "release", release)
    assert world.files.exists(CLAIM)
    world.launcher.on_submit = lambda _: None
    world.client.submit(saving())


def _too_large() -> Any:
    (role,) = job_spec().roles
    return (replace(role, tasks=10_000),)


def test_an_idempotency_key_gives_the_first_job_as_before(world: World) -> None:
    first = world.client.submit(saving(), idempotency_key="night")
    assert world.client.submit(saving(), idempotency_key="night").id == first.id
    with pytest.raises(PathTaken):
        world.client.submit(saving(), idempotency_key="day")


def test_several_submits_with_one_key_at_one_instant_give_one_job(world: World) -> None:
    barrier = threading.Barrier(4)

    def submit(_: int) -> str:
        barrier.wait()
        return world.client.submit(saving(), idempotency_key="night").id

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(submit, range(4)))) == 1


def test_a_slow_submit_keeps_its_claim_and_one_that_has_lost_it_does_not_reach_yarn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_claims, "UNDER_WAY_LIMIT_S", -1.0)  # each submit takes too long
    world.client.submit(saving())
    world.rm.change(*world.rm.apps, state="KILLED")
    stage = JobUpload.stage

    def overtaken(staging: JobUpload, *arguments: Any) -> Any:
        claimed(world)
        world.rm.add("application_1_1", tags=("yarnam", tag_of(OTHER_KEY)))
        return stage(staging, *arguments)

    monkeypatch.setattr(JobUpload, "stage", overtaken)
    with pytest.raises(PathTaken, match="application_1_1"):
        world.client.submit(saving())
    assert len(world.launcher.submitted) == 1
    assert world.files.exists(CLAIM)


# ---- takeover ------------------------------------------------------------------------------------


def test_takeover_ends_the_job_and_submits(world: World) -> None:
    first = world.client.submit(saving())
    second = world.client.submit(saving(), takeover=first.id)
    assert world.rm.killed == [first.id]
    with pytest.raises(PathTaken, match=second.id):
        world.client.submit(saving(), takeover=first.id)
    assert world.rm.killed == [first.id], "only the job that was named may be ended"
    world.client.submit(saving(), takeover=True)
    assert world.rm.killed == [first.id, second.id]


def test_a_job_that_stores_its_outputs_is_not_ended(world: World) -> None:
    claimed(world)
    other = world.job(key=OTHER_KEY)
    world.line.statuses = [status(JobState.STORING, application=other.id)]
    with pytest.raises(UsageError, match="storing its outputs"):
        world.client.submit(saving(), takeover=True)
    assert world.rm.killed == []
