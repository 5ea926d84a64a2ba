"""Everything that is refused before YARN is asked or HDFS is written to."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hdfs_utils.errors import PermissionDenied
from hdfs_utils.errors import Unavailable as HdfsUnavailable
from tests.unit.client.world import World, job_spec
from yarnam.client.submit.preflight import check_job
from yarnam.core.model.job_spec import DataInput, EnvironmentSpec, ShippedFile, StoringSpec
from yarnam.errors import BadSpec, NeverFits, NoPermission, Unavailable


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def refusal(world: World, kind: type[Exception], **changes: Any) -> Any:
    before = world.left_on_hdfs()
    with pytest.raises(kind) as caught:
        check_job(world.site, job_spec(**changes))
    assert world.left_on_hdfs() == before
    assert world.launcher.submitted == []
    return caught.value


def test_a_possible_job_gets_its_ladder(world: World) -> None:
    checked = check_job(world.site, job_spec())
    assert checked.plan.rungs[0].gpus == 8
    assert checked.targets


def test_a_short_queue_name_becomes_the_full_one(world: World) -> None:
    assert check_job(world.site, job_spec(queue="dl")).job.queue == "root.dl"


def test_an_unknown_queue_is_named_with_those_that_exist(world: World) -> None:
    error = refusal(world, BadSpec, queue="root.d1")
    assert "queue root.d1 does not exist" in error.message
    assert "Did you mean root.dl?" in error.hint
    assert "root.research" in error.hint


def test_a_parent_queue_takes_no_jobs(world: World) -> None:
    world.rm.queue_names = ["root.team.a", "root.team.b"]
    assert "not a leaf queue" in refusal(world, BadSpec, queue="root.team").message


def test_a_queue_that_is_closed_to_the_user(world: World) -> None:
    world.rm.access["root.dl"] = False
    assert "me is not allowed to submit to queue root.dl" in refusal(world, NoPermission).message


def test_an_untold_permission_is_left_to_yarn(world: World) -> None:
    world.rm.access["root.dl"] = None
    check_job(world.site, job_spec())


def test_a_gang_that_never_fits_says_why(world: World) -> None:
    role = replace(job_spec().roles[0], tasks=50)
    error = refusal(world, NeverFits, roles=(role,))
    assert "200 GPUs" in error.message
    assert error.hint


def test_a_resource_manager_that_has_just_started_may_not_know_all_nodes(world: World) -> None:
    role = replace(job_spec().roles[0], tasks=50)
    world.rm.began_s = time.time() - 5.0
    error = refusal(world, NeverFits, roles=(role,))
    assert error.hint.startswith("The ResourceManager started 5 s ago")
    world.rm.began_s = time.time() - 600.0
    assert "started" not in refusal(world, NeverFits, roles=(role,)).hint


def test_a_cluster_without_nodes_is_away_and_not_too_small(world: World) -> None:
    world.rm.nodes = ()
    error = refusal(world, Unavailable)
    assert "none of the cluster's 0 nodes is running" in error.message
    assert "within a minute" in error.hint


def test_a_resource_manager_that_has_just_taken_over_hears_of_its_nodes(world: World) -> None:
    """It knows none at first."""
    nodes, world.rm.nodes = world.rm.nodes, ()
    world.site.timing = replace(world.site.timing, nodes_s=60.0)
    threading.Timer(0.2, lambda: setattr(world.rm, "nodes", nodes)).start()
    assert check_job(world.site, job_spec()).plan.rungs


def test_a_missing_input_is_found_now_and_not_on_the_gpus(world: World) -> None:
    world.files.write_bytes("/data/there", b"x")
    inputs = (DataInput("a", "hdfs:///data/there"), DataInput("b", "/data/not"))
    error = refusal(world, BadSpec, inputs=inputs)
    assert error.message == "input 'b': /data/not does not exist"


def test_an_output_that_is_there_is_refused_unless_it_may_be_replaced(world: World) -> None:
    world.files.write_bytes("/results/job/theirs", b"x")
    for output in ("/results/job", "hdfs:///results/job/theirs"):
        error = refusal(world, BadSpec, output=output)
        assert error.message == f"output: {output} already exists"
        assert "replace: true" in error.hint
    check_job(world.site, job_spec(output="/results/job", storing=StoringSpec(replace=True)))


def test_an_empty_or_missing_output_is_fine(world: World) -> None:
    world.files.mkdirs("/results/empty")
    check_job(world.site, job_spec(output="/results/empty"))
    check_job(world.site, job_spec(output="hdfs:///results/deep/down"))


def test_an_output_below_a_file_cannot_be_made(world: World) -> None:
    world.files.write_bytes("/results/file", b"x")
    error = refusal(world, BadSpec, output="/results/file/a/b")
    assert "/results/file is a file" in error.message


def test_an_output_where_others_alone_may_write(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.files.mkdirs("/user/you")
    world.files.mkdirs("/results")  # me owns it, as all there is
    world.site.user = "you"
    error = refusal(world, NoPermission, output="/results/job")
    assert error.message == "output: you has no write access to /results, owned by me"
    world.files.chmod("/results", 0o777)
    check_job(world.site, job_spec(output="/results/job"))


def test_missing_files_and_environments_are_all_named(world: World, tmp_path: Path) -> None:
    error = refusal(
        world,
        BadSpec,
        files=(
            ShippedFile("here", str(tmp_path)),
            ShippedFile("a", "/nowhere/a.txt"),
            ShippedFile("b", "hdfs:///nowhere/b.txt"),
        ),
        environment=EnvironmentSpec("bin/python", "hdfs:///nowhere/env.tar.gz"),
    )
    assert error.message.count("\n") == 2
    for path in ("/nowhere/a.txt", "hdfs:///nowhere/b.txt", "hdfs:///nowhere/env.tar.gz"):
        assert path in error.message


def test_several_refusals_come_at_once(world: World) -> None:
    error = refusal(world, BadSpec, queue="root.none", inputs=(DataInput("b", "/data/not"),))
    assert "queue root.none does not exist" in error.message
    assert "Also: input 'b': /data/not does not exist" in error.hint


def test_an_unreadable_input_is_no_permission(world: World) -> None:
    def fail(operation: str, path: str) -> None:
        if path.startswith("/secret"):
            raise PermissionDenied("no", path=path, operation=operation)

    world.files.fail = fail
    refusal(world, NoPermission, inputs=(DataInput("b", "/secret/x"),))


def test_hdfs_that_does_not_answer(world: World) -> None:
    def fail(operation: str, path: str) -> None:
        raise HdfsUnavailable("no answer", path=path, operation=operation)

    world.files.fail = fail
    with pytest.raises(Unavailable, match="no answer"):
        check_job(world.site, job_spec())


def test_a_resource_manager_that_does_not_answer(world: World) -> None:
    world.rm.failure = Unavailable("no answer from the ResourceManager")
    refusal(world, Unavailable)


def test_a_home_directory_that_only_an_administrator_can_make(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.site.user = "you"  # /user belongs to me
    error = refusal(world, NoPermission)
    assert "/user/you does not exist" in error.message


def test_a_fault_of_ours_is_not_dressed_up_as_a_refusal(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(world.rm, "queues", broken)
    with pytest.raises(ZeroDivisionError):
        check_job(world.site, job_spec())
