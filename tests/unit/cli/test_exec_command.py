"""``yarnam exec`` over a client on fakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.terminal import in_pipes
from tests.unit.client.world import APPLICATION, World, status, task
from yarnam.cli.control.exec_everywhere import summary
from yarnam.cli.shell import Shell, run
from yarnam.core.model.session_parts import (
    EndKind,
    SessionData,
    SessionEnd,
    SessionKind,
    SessionOpened,
    SessionPart,
)
from yarnam.errors import ExitCode


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.line.statuses = [status(tasks=(task("worker-0", (0, 1)), task("worker-1", (2, 3))))]
    made.job()
    return made


def yarnam(world: World, *arguments: str) -> tuple[int, str, str]:
    with in_pipes() as (out, err):
        code = run(arguments, Shell(lambda **_: world.client))
    return code, out.content, err.content


def test_the_command_and_its_output(world: World) -> None:
    world.line.session_parts = [
        SessionOpened("s", 7),
        SessionData(b"out\n"),
        SessionData(b"err\n", is_error=True),
        SessionEnd(EndKind.EXITED, 3),
    ]
    assert yarnam(world, "exec", APPLICATION, "-r", "3", "--", "ls", "-l") == (3, "out\n", "err\n")
    [session] = world.line.sessions
    assert session.request.command == (b"ls", b"-l")
    assert (session.request.ask, session.request.local_rank) == ("a1.worker-1", 1)
    assert session.request.by == "me"
    assert session.has_ended_data
    assert session.closed


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        (SessionEnd(EndKind.EXITED, signal=9), 137, ""),
        (SessionEnd(EndKind.EXITED, 127, reason="command not found: x"), 127, "worker-0: command"),
        (SessionEnd(EndKind.REFUSED, reason="32 already"), ExitCode.USAGE, "worker-0: 32 already"),
        (SessionEnd(EndKind.CUT, reason="gone"), ExitCode.UNAVAILABLE, "has ended: gone"),
    ],
)
def test_ends(world: World, end: SessionEnd, code: int, words: str) -> None:
    world.line.session_parts = [end]
    found, _, err = yarnam(world, "exec", APPLICATION, "--", "x")
    assert found == code
    assert words in err


def test_detached_it_says_where(world: World) -> None:
    parts: list[SessionPart] = [SessionOpened("s", 7, "session-s.log")]
    world.line.session_parts = [*parts, SessionEnd(EndKind.DETACHED)]
    code, out, _ = yarnam(world, "exec", APPLICATION, "--detach", "--", "x")
    assert (code, out) == (0, "process 7 in worker-0, output in session-s.log\n")
    assert world.line.sessions[0].request.is_detached


def test_json(world: World) -> None:
    world.line.session_parts = [SessionData(b"a\xff"), SessionEnd(EndKind.EXITED, 3)]
    code, out, _ = yarnam(world, "exec", APPLICATION, "--json", "--", "x")
    assert code == 3
    assert [json.loads(line) for line in out.splitlines()] == [
        {"task": "worker-0", "stream": "stdout", "text": "a\ufffd"},
        {"task": "worker-0", "exit_code": 3, "reason": ""},
    ]


def test_in_every_task(world: World) -> None:
    world.line.session_parts = [
        SessionData(b"one\nt"),
        SessionData(b"wo"),
        SessionEnd(EndKind.EXITED, 2),
    ]
    code, out, err = yarnam(world, "exec", APPLICATION, "--all", "--", "x")
    assert code == 2
    tasks = ("worker-0", "worker-1")
    lines = [f"{name}: {line}" for name in tasks for line in ("one", "two")]
    assert sorted(out.splitlines()) == sorted(lines)
    assert err == "exit code 2 in worker-0, worker-1\n"


def test_a_summary_counts_the_good_and_names_the_others() -> None:
    codes = {"a": 0, "b": 1, "c": 0, "d": 137}
    assert summary(codes) == "exit code 0 in 2 tasks; 1 in b; 137 in d"


@pytest.mark.parametrize(
    "arguments",
    [
        ("exec", APPLICATION),
        ("exec", APPLICATION, "-t", "--detach", "--", "x"),
        ("exec", APPLICATION, "--all", "-i", "--", "x"),
        ("exec", APPLICATION, "--all", "--task", "worker-0", "--", "x"),
        ("shell", APPLICATION),
        ("port-forward", APPLICATION),
        ("cp", "a", "b"),
        ("cp", f"{APPLICATION}:a", f"{APPLICATION}:b"),
        ("cp", "./a:b", "c"),
    ],
)
def test_what_does_not_go_together_opens_no_session(
    world: World, arguments: tuple[str, ...]
) -> None:
    code, _, err = yarnam(world, *arguments)
    assert code == ExitCode.USAGE
    assert err
    assert world.line.sessions == []


def test_the_kind_of_a_copy_follows_from_its_ends(world: World, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    world.line.session_parts = [SessionEnd(EndKind.EXITED)]
    assert yarnam(world, "cp", str(tmp_path / "a"), f"{APPLICATION}:b", "-f")[0] == 0
    [session] = world.line.sessions
    assert session.request.kind is SessionKind.WRITE
    assert session.request.path == b"b"
    assert session.request.overwrites
    assert b"ustar" in session.sent
