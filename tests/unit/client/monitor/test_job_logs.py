"""Logs: the dump of ``yarn logs`` taken apart, live streams joined, choices checked."""

from __future__ import annotations

import tempfile
import threading
from email.message import Message
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fakes.full_disk import FullDisk
from tests.unit.client.world import APPLICATION, World, status, task, verdict
from yarnam.adapters.http_identity import HttpIdentity
from yarnam.client.monitor.logs import job_logs
from yarnam.client.monitor.logs.aggregated_logs import LogFile, parse_log_dump
from yarnam.client.monitor.logs.job_logs import LogPiece
from yarnam.core.model.job_status import JobState
from yarnam.errors import DiskFull, Unavailable, UsageError
from yarnam.wire.codec import encode
from yarnam.wire.http_request import HttpError, HttpReply

KEY = "20261121-000000-abcdef"
TRICK = b"LogType:worker-9.0.log\nLogLength:4\nLogContents:\nEnd of LogType:x\nContainer: c on d\n"


def dump(*files: tuple[str, str, bytes]) -> bytes:
    """As Hadoop 3.4's LogsCLI writes it."""
    out = b""
    for container, name, data in files:
        out += (
            f"Container: {container} on 127.1.1.1_45454\n"
            "LogAggregationType: AGGREGATED\n"
            "====================================\n"
            f"LogType:{name}\n"
            "LogLastModifiedTime:Sat Nov 21 01:45:41 +0000 2026\n"
            f"LogLength:{len(data)}\n"
            "LogContents:\n"
        ).encode()
        out += data
        out += f"\nEnd of LogType:{name}\n****************************\n\n".encode()
    return out


FILES = (
    ("c1", "application.driver.log", b"am\n"),
    ("c1", "application.master.log", b"java\n"),
    ("c2", "worker-0.0.log", b"zero\n"),
    ("c2", "worker-0.1.log", b"one\n1\n" + TRICK),
    ("c2", "agent.log", b"agent\n"),
    ("c3", "ps-0.0.log", b""),
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def yarn_tool(world: World, content: bytes, complaint: str = "", code: int = 0) -> None:
    """A ``yarn`` on the PATH that prints this."""
    folder = world.folder / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "out").write_bytes(content)
    tool = folder / "yarn"
    tool.write_text(
        f'#!/bin/sh\necho "$@" > {folder}/arguments\n'
        f"/bin/cat {folder}/out\necho '{complaint}' >&2\nexit {code}\n"
    )
    tool.chmod(0o755)


def ended(world: World):  # type: ignore[no-untyped-def]
    job = world.job(state="FINISHED", key=KEY)
    tasks = (task("worker-0", (0, 1)), task("ps-0", (2,)))
    world.put(KEY, "status.json", encode(status(JobState.RUNNING, tasks=tasks)))
    world.put(KEY, "verdict.json", encode(verdict()))
    return job


def shown(pieces: object) -> list[tuple[str, int | None, bytes]]:
    return [(piece.task, piece.rank, piece.data) for piece in pieces]  # type: ignore[attr-defined]


def test_contents_are_taken_by_length_so_no_output_can_fake_a_head() -> None:
    assert [(file.container, file.name, file.data) for file in parse_log_dump(dump(*FILES))] == [
        *FILES
    ]


@pytest.mark.parametrize("cut", [10, 200, 300])
def test_a_dump_that_breaks_off_gives_what_is_there(cut: int) -> None:
    whole = list(parse_log_dump(dump(*FILES)))
    found = list(parse_log_dump(dump(*FILES)[:cut]))
    assert len(found) < len(whole)
    for one, other in zip(found, whole, strict=False):
        assert other.data.startswith(one.data)


def test_last_lines() -> None:
    file = LogFile("c", "n", b"a\nb\nc")
    assert file.last_lines(2) == b"b\nc"
    assert file.last_lines(9) == b"a\nb\nc"
    assert file.last_lines(0) == b""


def test_the_processes_of_an_ended_job_with_their_ranks(world: World) -> None:
    yarn_tool(world, dump(*FILES))
    assert shown(ended(world).logs()) == [
        ("worker-0", 0, b"zero\n"),
        ("worker-0", 1, b"one\n1\n" + TRICK),
        ("ps-0", 2, b""),
    ]
    arguments = (world.folder / "bin" / "arguments").read_text()
    assert arguments == f"logs -applicationId {APPLICATION} -appOwner me\n"


def test_logs_whose_end_does_not_fit_on_the_disk_are_an_error(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``yarn logs`` itself ends well there."""
    yarn_tool(world, dump(*FILES))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    job = ended(world)
    with FullDisk(scratch, 2).installed(), pytest.raises(DiskFull):
        list(job.logs())


def test_choices_of_an_ended_job(world: World) -> None:
    yarn_tool(world, dump(*FILES))
    job = ended(world)
    assert [one[:2] for one in shown(job.logs("ps-0"))] == [("ps-0", 2)]
    assert [one[:2] for one in shown(job.logs(rank=1))] == [("worker-0", 1)]
    assert shown(job.logs(rank=0, tail=1)) == [("worker-0", 0, b"zero\n")]
    assert [one[0] for one in shown(job.logs(source="am"))] == [
        "application.driver.log", "application.master.log",
    ]  # fmt: skip
    assert [one[2] for one in shown(job.logs(source="agent"))] == [b"agent\n"]
    with pytest.raises(UsageError, match="no log of worker-7"):
        list(job.logs("worker-7"))


def test_logs_that_yarn_does_not_have(world: World) -> None:
    yarn_tool(world, b"", "Can not find any log file matching the pattern", 255)
    with pytest.raises(Unavailable, match="Can not find any log file") as caught:
        list(ended(world).logs())
    assert "yarn.log-aggregation-enable" in caught.value.hint


def test_logs_stay_on_the_nodes_where_yarn_aggregates_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NodeManagers give them, of the last attempt and the AM; one that is away hides its own."""
    job = world.job(
        state="FINISHED", key=KEY, log_aggregation="DISABLED",
        am_log_url="https://n1:8044/node/containerlogs/c1/me",
    )  # fmt: skip
    workers = task("worker-0", (0, 1), container="c2", http_address="n1:8044")
    away = task("ps-0", (2,), container="c3", http_address="n3:8044")
    world.put(KEY, "status.json", encode(status(JobState.RUNNING, tasks=(workers, away))))
    world.put(KEY, "verdict.json", encode(verdict()))
    kept = {(container, name): (container, name, data) for container, name, data in FILES}

    def get(_: HttpIdentity, url: str, **__: object) -> HttpReply:
        assert url.startswith("https://n")
        if "//n3" in url or not kept:
            raise HttpError("refused")
        _, _, container, _, name = url.split("/")[-5:]
        if (found := kept.get((container, name))) is None:
            raise HttpError("HTTP 404", 404)
        return HttpReply(dump(found), Message())

    monkeypatch.setattr(HttpIdentity, "get", get)
    assert shown(job.logs()) == [("worker-0", 0, b"zero\n"), ("worker-0", 1, b"one\n1\n" + TRICK)]
    assert [one[2] for one in shown(job.logs(source="agent"))] == [b"agent\n"]
    assert [one[2] for one in shown(job.logs(source="am"))] == [b"am\n", b"java\n"]
    kept.clear()
    with pytest.raises(Unavailable, match="the NodeManager https://n3:8044 shows no log") as caught:
        list(job.logs())
    assert "yarn.nodemanager.log.retain-seconds" in caught.value.hint


def test_a_job_that_never_ran_has_no_logs(world: World) -> None:
    job = world.job(state="KILLED", final_status="KILLED", am=False)
    with pytest.raises(Unavailable, match=r"no container of .* ever ran"):
        list(job.logs())


def test_logs_are_whole_before_they_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, aggregation_limit_s=30.0)
    monkeypatch.setattr("yarnam.client.monitor.logs.aggregated_logs.time.sleep", lambda _: None)
    yarn_tool(world, dump(*FILES))
    job = ended(world)
    told = iter(["NOT_START", "RUNNING", "RUNNING_WITH_FAILURE"])

    def look(_: object) -> None:
        assert not (world.folder / "bin" / "arguments").exists()
        world.rm.change(APPLICATION, log_aggregation=next(told, "SUCCEEDED"))

    world.rm.on_look = look
    assert len(list(job.logs())) == 3
    assert next(told, None) is None


def test_no_yarn_command_and_nothing_on_hdfs(world: World) -> None:
    with pytest.raises(Unavailable, match="HDFS has no directory of them"):
        list(ended(world).logs())


def test_live_logs_come_from_every_agent(world: World) -> None:
    tasks = (task("worker-0", (0, 1), "n1:9"), task("worker-1", (2, 3), "n2:9"))
    world.line.statuses = [status(tasks=tasks)]
    world.line.outputs = {
        ("n1:9", 0): [b"a", b"b"], ("n1:9", 1): [b"c"], ("n2:9", 0): [b"d"],
    }  # fmt: skip
    found = shown(world.job().logs(tail=5))
    assert sorted(found, key=str) == [
        ("worker-0", 0, b"a"), ("worker-0", 0, b"b"), ("worker-0", 1, b"c"), ("worker-1", 2, b"d"),
    ]  # fmt: skip
    assert {one[2] for one in world.line.tails} == {5}


def test_what_has_come_is_shown_before_the_last_log_is_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gang may have a thousand. Here each thread has come to its end when it has been started."""

    class EndsAtOnce(threading.Thread):
        def start(self) -> None:
            super().start()
            self.join()

    names = SimpleNamespace(Thread=EndsAtOnce, Event=threading.Event)
    monkeypatch.setattr(job_logs, "threading", names)
    tasks = tuple(task(f"worker-{n}", (n,), f"n{n}:9") for n in range(9))
    world.line.statuses = [status(tasks=tasks)]
    world.line.outputs = {(f"n{n}:9", 0): [b"x"] for n in range(9)}
    pieces = world.job().logs()
    assert shown([next(pieces)]) == [("worker-0", 0, b"x")]
    assert [one[0] for one in world.line.tails] == ["n0:9"]
    assert len(list(pieces)) == 8


def test_live_choices(world: World) -> None:
    tasks = (task("worker-0", (0, 1), "n1:9"), task("worker-1", (2, 3), "n2:9"))
    world.line.statuses = [status(tasks=tasks)]
    job = world.job()
    list(job.logs(rank=3))
    assert [one[:2] for one in world.line.tails] == [("n2:9", 1)]
    world.line.tails.clear()
    list(job.logs("worker-0", source="agent"))
    assert [(one[0], one[4]) for one in world.line.tails] == [("n1:9", True)]
    with pytest.raises(UsageError, match="no task worker-2"):
        list(job.logs("worker-2"))
    with pytest.raises(UsageError, match="no rank 4"):
        list(job.logs(rank=4))


def test_before_anything_runs_it_says_so(world: World) -> None:
    world.line.statuses = [status(JobState.ACQUIRING, reason="1 of 2")]
    (piece,) = world.job().logs()
    assert piece.is_note
    assert b"nothing runs yet: ACQUIRING 1 of 2" in piece.data


def test_following_waits_for_processes_and_ends_with_the_job(world: World) -> None:
    running = status(tasks=(task("worker-0", (0,), "n1:9"),))
    over = status(JobState.SUCCEEDED, verdict=verdict())
    world.line.statuses = [status(JobState.ACQUIRING), running, over]
    world.line.outputs = {("n1:9", 0): [b"late\n"]}
    pieces = list(world.job().logs(follow=True))
    assert pieces == [LogPiece("worker-0", 0, b"late\n")]


def test_following_a_restart_reads_the_new_attempt_too(world: World) -> None:
    first = task("worker-0", (0,), "n1:9")
    second = task("worker-0", (0,), "n2:9")
    world.line.statuses = [
        status(tasks=(first,)),
        status(tasks=(second,), attempt=2),
        status(JobState.SUCCEEDED, verdict=verdict()),
    ]
    world.line.outputs = {("n1:9", 0): [b"first\n"], ("n2:9", 0): [b"second\n"]}
    assert [piece.data for piece in world.job().logs(follow=True)] == [b"first\n", b"second\n"]


def test_an_agent_that_dies_is_a_note_not_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = (task("worker-0", (0,), "n1:9"), task("worker-1", (1,), "n2:9"))
    world.line.statuses = [status(tasks=tasks)]
    good = world.line.tail

    def tail(address: str, rank: int, **options: object):  # type: ignore[no-untyped-def]
        if address == "n1:9":
            raise Unavailable("no answer from n1:9")
        return good(address, rank, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(world.line, "tail", tail)
    world.line.outputs = {("n2:9", 0): [b"still here\n"]}
    pieces = list(world.job().logs())
    assert {piece.is_note for piece in pieces} == {True, False}
    assert b"the log of worker-0 breaks off" in next(p.data for p in pieces if p.is_note)
