"""``yarnam debug`` over a client on fakes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.cli.terminal import in_pipes
from tests.unit.client.world import APPLICATION, World, status, task
from yarnam.cli.shell import Shell, run
from yarnam.client.monitor.sessions import rank_stacks
from yarnam.core.model.session_parts import (
    EndKind,
    RankStacks,
    SessionData,
    SessionEnd,
    SessionKind,
    SessionOpened,
    StackFrame,
    ThreadStack,
)
from yarnam.errors import ExitCode
from yarnam.wire.codec import encode

FOUND = RankStacks(
    71, "py-spy", (ThreadStack("Thread 71", (StackFrame("f", "a.py", 3), StackFrame("g", "a", 9))),)
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    tasks = (task("worker-0", (0, 1)), task("worker-1", (2, 3), node="n2"))
    made.line.statuses = [status(tasks=tasks)]
    made.line.session_parts = [
        SessionOpened("s", 70),
        SessionData(encode(FOUND)[:9]),
        SessionData(encode(FOUND)[9:]),
        SessionEnd(EndKind.EXITED),
    ]
    made.job()
    return made


def yarnam(world: World, *arguments: str) -> tuple[int, str, str]:
    with in_pipes() as (out, err):
        code = run(arguments, Shell(lambda **_: world.client))
    return code, out.content, err.content


def test_the_innermost_call_of_each_thread_comes_first(world: World) -> None:
    assert yarnam(world, "debug", APPLICATION, "--rank", "3") == (
        0,
        "rank 3 in worker-1 on n2, process 71, by py-spy\n\nThread 71\n  f (a.py:3)\n  g (a:9)\n",
        "",
    )
    [session] = world.line.sessions
    assert session.request.kind is SessionKind.STACKS
    assert (session.request.ask, session.request.local_rank) == ("a1.worker-1", 1)
    assert session.closed


def test_json(world: World) -> None:
    code, out, _ = yarnam(world, "debug", APPLICATION, "--rank", "0", "--json")
    found = json.loads(out)
    assert (code, found["rank"], found["task"]) == (0, 0, "worker-0")
    assert found["stacks"]["threads"][0]["frames"][0] == {
        "function": "f", "file": "a.py", "line": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("end", "code", "words"),
    [
        (SessionEnd(EndKind.REFUSED, reason="no py-spy"), ExitCode.USAGE, "in worker-0: no py-spy"),
        (SessionEnd(EndKind.CUT, reason="gone"), ExitCode.UNAVAILABLE, "has ended: gone"),
        (SessionEnd(EndKind.EXITED), ExitCode.WIRE_MISMATCH, ""),
    ],
)
def test_ends(world: World, end: SessionEnd, code: int, words: str) -> None:
    world.line.session_parts = [end]
    found, _, err = yarnam(world, "debug", APPLICATION, "--rank", "0")
    assert found == code
    assert words in err


def test_a_reply_without_an_end_is_cut(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_stacks, "MAX_BYTES", 20)
    code, _, err = yarnam(world, "debug", APPLICATION, "--rank", "0")
    assert code == ExitCode.UNAVAILABLE
    assert "more than 20 bytes" in err
    assert world.line.sessions[0].closed


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"interactive": False}, "sessions are off for this job"),
        ({"tasks": (task("w", (1,)),)}, "there is no rank 0"),
        ({"tasks": ()}, "has no process now"),
    ],
)
def test_what_has_no_stack_opens_no_session(
    world: World, changes: dict[str, object], words: str
) -> None:
    world.line.statuses = [status(**changes)]
    code, _, err = yarnam(world, "debug", APPLICATION, "--rank", "0")
    assert code == ExitCode.USAGE
    assert words in err
    assert world.line.sessions == []


def test_a_rank_that_has_ended_is_named_with_its_end(world: World) -> None:
    ended = replace(task("w", (0,)), state="exited", exit_text="exit code 3")
    world.line.statuses = [status(tasks=(ended,))]
    code, _, err = yarnam(world, "debug", APPLICATION, "--rank", "0")
    assert code == ExitCode.USAGE
    assert "rank 0 has ended: exit code 3" in err
