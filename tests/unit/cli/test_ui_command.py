"""``yarnam ui``: where it listens, and what its pages are made of."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.accounting.records import record
from tests.unit.client.world import APPLICATION, World
from yarnam.adapters.hdfs.history_store import HistoryStore
from yarnam.cli.jobs.ui_command import JobViews, cluster_source
from yarnam.cli.shell import Shell, run
from yarnam.client.user_paths import new_key, tag_of
from yarnam.core.model.job_status import JobState
from yarnam.errors import ExitCode, YarnamError


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def ui(world: World, *arguments: str) -> int:
    return run(["ui", *arguments], Shell(lambda **_: world.client))


@pytest.mark.parametrize("address", ["0.0.0.0", "10.0.0.1", "::1", "localhost"])
def test_it_listens_on_loopback_alone(
    world: World, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ui(world, "--address", address) == ExitCode.USAGE
    assert "ssh -L" in capsys.readouterr().err


def test_a_port_in_use_is_an_error_that_says_what_to_do(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        assert ui(world, "--port", str(taken.getsockname()[1])) == ExitCode.USAGE
    assert "--port 0" in capsys.readouterr().err


def test_a_running_job_comes_from_its_applicationmaster(world: World) -> None:
    world.job(name="hello")
    source = cluster_source(world.client)
    assert [one.application for one in source.active()] == [APPLICATION]
    view = source.job(APPLICATION)
    assert view.status.state is JobState.RUNNING
    assert view.home == "/"
    source.job(APPLICATION)
    assert len(world.lines) == 2  # one for the list, one for the page, which is kept


def test_an_ended_job_comes_from_its_record(world: World) -> None:
    kept = record(user="me")
    HistoryStore(world.files, world.site.paths.history).put(kept)
    world.rm.add(kept.application, state="FINISHED", user="me")
    source = cluster_source(world.client)
    assert [one.application for one in source.ended()] == [kept.application]
    view = source.job(kept.application)
    assert view.status.state is JobState.SUCCEEDED
    assert view.placements == kept.placements


def test_another_users_job_shows_what_yarn_knows(world: World) -> None:
    world.rm.add(APPLICATION, user="bob", name="bobs", tags=("yarnam", tag_of(new_key())))
    view = JobViews(world.client).view(APPLICATION)
    assert view.status.user == "bob"
    assert not view.events


def test_a_job_that_nobody_knows_is_an_error(world: World) -> None:
    with pytest.raises(YarnamError):
        JobViews(world.client).view("application_1_9999")
