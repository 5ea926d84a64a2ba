"""Down, and what a failed start leaves, without a Hadoop."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from yarnam.cluster import EmbeddedCluster
from yarnam.cluster.cluster_paths import ClusterPaths, cache_dir, check_cluster_name, clusters_dir
from yarnam.cluster.cluster_plan import ClusterPlan, ClusterRecord, save_cluster
from yarnam.cluster.daemons.daemon_processes import identify, write_record
from yarnam.cluster.lifecycle import differences, hdfs_folders
from yarnam.cluster.prepare import remove_tree, write_cluster
from yarnam.cluster.shape import ClusterShape
from yarnam.errors import Unavailable, UsageError


def test_there_may_be_nothing_to_take_down(tmp_path: Path) -> None:
    assert EmbeddedCluster(name="none", state_root=tmp_path).down() is False


@pytest.mark.parametrize("damage", [None, "{"])
def test_down_ends_what_is_recorded_even_where_the_record_is_damaged(
    plan: ClusterPlan, damage: str | None
) -> None:
    save_cluster(ClusterRecord(plan, "starting"))
    if damage is not None:
        plan.paths.record.write_text(damage)
    daemon = subprocess.Popen(["sleep", "60"], start_new_session=True)
    identity = identify(daemon.pid)
    assert identity is not None
    write_record(plan.paths.process_record("rm"), identity)
    cluster = EmbeddedCluster(name=plan.name, state_root=plan.paths.base)
    assert cluster.down() is True
    assert daemon.wait(5) == -9
    assert not plan.paths.root.exists()


def test_down_leaves_a_process_alone_that_only_has_the_number(plan: ClusterPlan) -> None:
    save_cluster(ClusterRecord(plan, "ready"))
    other = subprocess.Popen(["sleep", "60"])
    try:
        identity = identify(other.pid)
        assert identity is not None
        record = plan.paths.process_record("rm")
        write_record(record, type(identity)(other.pid, 1.0, identity.boot_id))
        EmbeddedCluster(name=plan.name, state_root=plan.paths.base).down()
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_folders_without_write_permission_are_removed_too(tmp_path: Path) -> None:
    locked = tmp_path / "top" / "locked" / "inner"
    locked.mkdir(parents=True)
    (locked / "file").touch()
    locked.chmod(stat.S_IRUSR | stat.S_IXUSR)
    locked.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    remove_tree(tmp_path / "top")
    assert not (tmp_path / "top").exists()


def test_what_another_removes_meanwhile_is_gone_as_it_should_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "file").write_bytes(b"")
    unlink = os.unlink

    def late(path: Any, **where: Any) -> None:
        unlink(path, **where)
        unlink(path, **where)  # as when another was there first

    monkeypatch.setattr(os, "unlink", late)
    remove_tree(tmp_path / "top")
    assert not (tmp_path / "top").exists()


def test_everything_a_cluster_needs_is_written_below_its_folder(plan: ClusterPlan) -> None:
    write_cluster(plan, "<allocations/>")
    paths = plan.paths
    for daemon in plan.daemons:
        assert (paths.daemon_conf(daemon) / "hosts").is_file()
    for path in (paths.conf / "core-site.xml", paths.queues("fair"), paths.bin / "yarn"):
        assert path.is_file()
    assert (paths.web_base / "webapps" / "hdfs").is_dir()


def test_a_cluster_that_is_not_up_says_what_to_do(plan: ClusterPlan) -> None:
    cluster = EmbeddedCluster(name=plan.name, state_root=plan.paths.base)
    with pytest.raises(Unavailable) as failure:
        cluster.env()
    assert failure.value.hint == "Bring it up: yarnam cluster up --name test"
    save_cluster(ClusterRecord(plan, "failed"))
    with pytest.raises(Unavailable, match="its start failed"):
        cluster.env()


def test_a_daemon_has_a_name_of_the_cluster(plan: ClusterPlan) -> None:
    save_cluster(ClusterRecord(plan, "ready"))
    cluster = EmbeddedCluster(name=plan.name, state_root=plan.paths.base)
    with pytest.raises(UsageError, match="no daemon 'nm9'") as failure:
        cluster.daemon("nm9")
    assert "nm1, nm2, nm3, nm4" in failure.value.hint
    assert cluster.daemon("nm1").pid is None
    with pytest.raises(Unavailable, match="is not running"):
        cluster.daemon("nm1").kill()


def test_differences_are_told() -> None:
    told = differences(ClusterShape(), ClusterShape(nodes=2, gpu_model="A100"))
    assert told == "nodes 4, asked for 2, gpu_model None, asked for A100"


def test_hdfs_has_the_folders_of_every_site() -> None:
    folders = {folder.path: (folder.mode, folder.owner) for folder in hdfs_folders("ada")}
    assert folders["/tmp"] == folders["/app-logs"] == ("1777", None)
    assert folders["/user/ada"] == ("755", "ada")


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a/b", "a" * 33])
def test_a_name_that_is_no_folder_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        check_cluster_name(name)


def test_places_follow_the_settings(tmp_path: Path) -> None:
    home = {"YARNAM_HOME": str(tmp_path)}
    assert cache_dir(home) == tmp_path / "cache"
    assert clusters_dir(home) == tmp_path / "clusters"
    xdg = {"XDG_CACHE_HOME": "/c", "XDG_STATE_HOME": "/s"}
    assert cache_dir(xdg) == Path("/c/yarnam")
    assert clusters_dir(xdg) == Path("/s/yarnam/clusters")
    assert cache_dir({}) == Path("~/.cache/yarnam").expanduser()
    assert ClusterPaths(tmp_path, "x").lock.parent != ClusterPaths(tmp_path, "x").root
