"""``yarnam ui``: where it listens, and what its pages are made of."""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.accounting.records import record
from tests.unit.client.monitor.test_job_logs import dump, yarn_tool
from tests.unit.client.world import APPLICATION, World, status, task, verdict
from tests.unit.web.job_values import cause
from yarnam.adapters.hdfs.history_store import HistoryStore
from yarnam.cli.jobs import ui_command
from yarnam.cli.jobs.ui_command import JobViews, cluster_source
from yarnam.cli.shell import Shell, run
from yarnam.client.monitor.job_history import ALL_USERS
from yarnam.client.user_paths import new_key, tag_of
from yarnam.core.model.job_status import JobState
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import ExitCode, Unavailable, UsageError, YarnamError
from yarnam.web.log_page import LINES, LogChoice
from yarnam.wire.codec import encode


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


@pytest.mark.parametrize("owner", ["me", "bob"])
def test_another_users_record_does_not_stand_in_place_of_the_owners(
    world: World, owner: str
) -> None:
    kept = record(user=owner)
    tags = ("yarnam", tag_of(kept.key))
    world.rm.add(kept.application, state="FINISHED", user=owner, tags=tags)
    forged = replace(kept, user="eve", key=f"{kept.key[:-1]}f", name="forged")
    forged = replace(forged, ended_at_s=kept.ended_at_s + 1000)
    for one in (kept, forged):
        HistoryStore(world.files, world.site.paths_of(one.user).history).put(one)
    assert JobViews(world.client).view(kept.application).status.name == kept.name
    assert world.client.history.record(kept.application, owner) == kept
    with pytest.raises(UsageError, match="2 users have a record") as caught:
        world.client.history.record(kept.application, ALL_USERS)
    assert f"{min('eve', owner)}, {max('eve', owner)}" in caught.value.message


def test_a_job_that_nobody_knows_is_an_error(world: World) -> None:
    with pytest.raises(YarnamError):
        JobViews(world.client).view("application_1_9999")


def test_live_logs_come_from_the_agents(world: World) -> None:
    tasks = (task("worker-0", (0, 1), "n1:9"),)
    world.line.statuses = [status(tasks=tasks)]
    world.line.outputs["n1:9", 1] = [b"step 1\n", b"step 2\n"]
    world.job()
    views = JobViews(world.client)
    view = views.logs(APPLICATION, LogChoice(rank=1))
    assert [(one.title, one.text) for one in view.logs] == [
        ("worker-0, rank 1", "step 1\nstep 2\n")
    ]
    assert view.is_live
    assert views.logs(APPLICATION, LogChoice()).chosen.rank == 0
    assert {(rank, lines) for _, rank, lines, _, _ in world.line.tails} == {(1, LINES), (0, LINES)}
    with pytest.raises(UsageError, match="there is no rank 7"):
        views.logs(APPLICATION, LogChoice(rank=7))


def test_before_the_start_the_logs_say_what_is_waited_for(world: World) -> None:
    world.line.statuses = [status(JobState.QUEUED, reason="3 jobs ahead")]
    world.job()
    view = JobViews(world.client).logs(APPLICATION, LogChoice())
    assert view.notes == ["nothing runs yet: QUEUED 3 jobs ahead"]


def test_logs_of_an_ended_job_come_from_yarn_first_those_of_the_first_cause(world: World) -> None:
    yarn_tool(world, dump(("c2", "worker-0.0.log", b"zero\n"), ("c2", "worker-3.0.log", b"six\n")))
    key = new_key()
    world.job(state="FINISHED", key=key)
    ranks = (task("worker-0", (0,)), task("worker-3", (6,)))
    world.put(key, "status.json", encode(status(tasks=ranks)))
    ended = replace(verdict(VerdictKind.FAILED, 90, "out of memory"), cause=cause())
    world.put(key, "verdict.json", encode(ended))
    views = JobViews(world.client)
    view = views.logs(APPLICATION, LogChoice())
    assert [(one.title, one.text) for one in view.logs] == [("worker-3, rank 6, c2", "six\n")]
    assert not view.is_live
    assert views.view(APPLICATION).logs == f"/jobs/{APPLICATION}/logs"
    assert views.logs(APPLICATION, LogChoice(rank=0)).logs[0].text == "zero\n"


def test_who_waits_too_long_for_other_readers_of_logs_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ui_command, "LOGS_WAIT_S", 0.01)
    world.job()
    views = JobViews(world.client)
    for _ in range(ui_command.MOST_LOG_READERS):
        views._readers.acquire()
    with pytest.raises(Unavailable, match="other logs are being read"):
        views.logs(APPLICATION, LogChoice())
