"""``yarnam top`` over a client on fakes."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.terminal import Terminal
from tests.unit.cli.terminal import in_pipes
from tests.unit.cli.top_on_fakes import world_of
from tests.unit.client.world import APPLICATION, World, status
from yarnam.cli.jobs.live.top_command import ORDERS
from yarnam.cli.jobs.live.top_text import _OF_JOBS as OF_JOBS
from yarnam.cli.jobs.live.top_text import TopView, cut, fitted, top_lines
from yarnam.cli.shell import Shell, run
from yarnam.client.monitor.live.live_jobs import LiveJob
from yarnam.client.monitor.live.usage_rows import JobUse, UsageOrder
from yarnam.errors import ExitCode, Unavailable

ROOT = Path(__file__).parents[3]
SCREEN, NO_SCREEN = "\x1b[?1049h", "\x1b[?1049l"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return world_of(tmp_path)


def yarnam(world: World, *arguments: str) -> tuple[int, str, str]:
    with in_pipes() as (out, err):
        code = run(arguments, Shell(lambda **_: world.client))
    return code, out.content, err.content


def test_without_a_terminal_it_is_one_table(world: World) -> None:
    code, out, err = yarnam(world, "top")
    assert (code, err) == (0, "")
    headers, row = out.splitlines()
    assert headers.split() == [
        "ID", "NAME", "STATE", "GPUS", "GPU%", "GPU", "MEM", "WATTS", "CPU", "MEMORY", "LIMIT",
        "STEP", "STEPS/S",
    ]  # fmt: skip
    assert row.split()[0] == APPLICATION
    assert "87    -        -      -    1.0 GiB  25% of 4.0 GiB  5     -" in row


def test_the_tasks_of_one_job(world: World) -> None:
    code, out, _ = yarnam(world, "top", "last", "--once")
    assert code == 0
    title, _, row = out.splitlines()
    assert title == f"hello  {APPLICATION}  RUNNING, step 5"
    assert row.split()[:6] == ["worker-0", "-", "started", "0", "3", "87"]


def test_json_is_one_object(world: World) -> None:
    code, out, _ = yarnam(world, "top", "--json")
    assert code == 0
    [job] = json.loads(out)["jobs"]
    assert (job["id"], job["gpu_percent"], job["memory_limit_bytes"]) == (APPLICATION, 87.0, 2**32)
    assert (job["age_s"], job["cpu_cores"]) == (None, None)
    assert job["tasks"][0]["gpu_ids"] == ["3"]


def test_no_job_is_no_error(tmp_path: Path) -> None:
    assert yarnam(World(tmp_path / "empty"), "top") == (0, "", "No active jobs.\n")


def test_a_job_that_has_ended_uses_nothing(world: World) -> None:
    world.rm.change(APPLICATION, state="FINISHED", final_status="SUCCEEDED")
    code, _, err = yarnam(world, "top", APPLICATION)
    assert code == ExitCode.USAGE
    assert f"{APPLICATION} has ended" in err


def test_a_list_that_cannot_be_read_is_an_error(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise Unavailable("no ResourceManager")

    monkeypatch.setattr(world.rm, "applications", fail)
    code, _, err = yarnam(world, "top", "--once")
    assert code == ExitCode.UNAVAILABLE
    assert "no ResourceManager" in err


def test_a_job_without_an_answer_has_its_age(world: World) -> None:
    [known] = world.line.statuses
    silent = LiveJob(replace(known, is_last_known=True, reason="does not answer"), 70.0)
    header, row = map(str, top_lines_of(silent, now_s=100.0))
    assert header.endswith("HEARD")
    assert row.endswith("30s ago")
    never = LiveJob(replace(known, at_s=0.0), 0.0)
    assert str(top_lines_of(never, now_s=100.0)[1]).endswith("never")


def top_lines_of(*jobs: LiveJob, now_s: float, **size: int) -> list[str]:
    return [
        line if isinstance(line, str) else "".join(part if isinstance(part, str) else part.text
        for part in line) for line in top_lines(TopView(jobs), now_s, **size)
    ]  # fmt: skip


def many(count: int) -> list[LiveJob]:
    return [
        LiveJob(status(name=f"a job with a long name {number}", at_s=99.0), 99.0)
        for number in range(count)
    ]


def test_of_more_rows_than_the_terminal_has_the_rest_is_counted() -> None:
    shown = top_lines_of(*many(50), now_s=100.0, width=200, height=20)
    assert len(shown) == 20
    assert shown[-1] == "and 32 more rows"
    assert len(top_lines_of(*many(19), now_s=100.0, width=200, height=20)) == 20


@pytest.mark.parametrize("width", [20, 60, 80, 100, 120, 200])
def test_what_a_narrow_terminal_has_no_room_for_is_named(width: int) -> None:
    shown = top_lines_of(*many(2), now_s=100.0, width=width)
    *table, last = shown
    headers = re.split(" {2,}", table[0])
    left_out = [column.header for column in OF_JOBS if column.header not in headers]
    if not left_out:
        assert max(map(len, shown)) <= width
        return
    assert sorted(last.partition(": ")[2].split(", ")) == sorted(left_out)
    always = sum(len(APPLICATION) if column.header == "ID" else len(column.header) + 2
                 for column in OF_JOBS if not column.leave_out)  # fmt: skip
    assert max(map(len, table)) <= max(width, always)


def test_a_long_name_is_cut_before_a_column_goes() -> None:
    row = JobUse(APPLICATION, "n" * 100, "RUNNING")
    columns, [cells], hidden = fitted(OF_JOBS, [row], 120)
    assert (columns, hidden) == (OF_JOBS, [])
    assert cells[1] == cut("n" * 100, len(cells[1]))
    assert cells[1].endswith("n…")


def test_every_order_can_be_chosen() -> None:
    assert list(ORDERS) == [order.value for order in UsageOrder]


# ---- on a terminal -----------------------------------------------------------------------------


@contextmanager
def terminal(folder: Path, *arguments: str) -> Iterator[Any]:
    """A shell that says after the command what its exit code and the terminal's modes are."""
    words = shlex.join([sys.executable, "-m", "tests.unit.cli.top_on_fakes", *arguments])
    script = folder / "script"
    script.write_text(
        f"stty -g > before; {words}\ncode=$?; stty -g > after; cmp before after && echo code-$code"
    )
    child = Terminal(
        ["/bin/sh", str(script)], folder=folder, timeout_s=30, rows=24, columns=150,
        env={"TERM": "xterm", "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        child.expect_exact(SCREEN)
        yield child
    finally:
        child.end()


def test_q_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with terminal(tmp_path) as child:
        child.expect("25% of 4.0 GiB")
        child.setwinsize(24, 60)
        child.expect("left out, as the terminal is narrow: .*LIMIT")
        child.send("q")
        child.expect_exact(NO_SCREEN)
        child.expect("code-0")


def test_ctrl_c_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with terminal(tmp_path, APPLICATION) as child:
        child.expect("worker-0")
        child.sendcontrol("c")
        child.expect_exact(NO_SCREEN)
        child.expect(pexpect.EOF)


def test_the_end_of_the_one_job_ends_the_view(tmp_path: Path) -> None:
    with terminal(tmp_path, APPLICATION, "ends") as child:
        child.expect_exact(NO_SCREEN)
        child.expect(f"{APPLICATION} has ended: it is ")
        child.expect("code-0")


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(tmp_path: Path) -> None:
    """In a shell with job control."""
    words = shlex.join([sys.executable, "-m", "tests.unit.cli.top_on_fakes"])
    child = Terminal(
        ["bash", "--norc", "-i"], folder=tmp_path, timeout_s=30, rows=24, columns=150,
        env={"TERM": "xterm", "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PS1": "ready> "},
    )  # fmt: skip
    try:
        child.expect_exact("ready> ")
        child.sendline(words)
        child.expect_exact(SCREEN)
        child.expect("25% of 4.0 GiB")
        child.sendcontrol("z")
        child.expect_exact(NO_SCREEN)
        child.expect("Stopped")
        child.sendline("fg")
        child.expect_exact(SCREEN)
        child.expect("25% of 4.0 GiB")
        child.send("q")
        child.expect_exact(NO_SCREEN)
        child.sendline("echo code-$?")
        child.expect("code-0")
    finally:
        child.end()
