"""Each command over a client on fakes: text, JSON, exit code."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.terminal import Stream
from tests.unit.client.world import APPLICATION, World, status, task, verdict
from yarnam.cli.shell import Shell, run
from yarnam.client import Job, LogPiece
from yarnam.core.model.events import CancelRequested, JobStarted
from yarnam.core.model.job_status import (
    AttemptRecord,
    JobState,
    JobStatus,
    RefusedNode,
    StartForecast,
    WaitQueueStatus,
)
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import ExitCode, NoPermission, Unavailable
from yarnam.wire.codec import encode

KEY = "20261121-000000-abcdef"
SPEC = """\
version: 1
name: hello
queue: root.dl
command: python3 train.py
gpus: 8
env: {TOKEN: s3cret-value, PLAIN: shown}
secret_env: [TOKEN]
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "spec.yaml").write_text(SPEC)
    return World(tmp_path)


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(world: World, capsys: pytest.CaptureFixture[str]) -> Call:
    def run_it(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments, Shell(lambda **_: world.client))
        said = capsys.readouterr()
        return code, said.out, said.err

    return run_it


def run_through(world: World, *statuses: JobStatus) -> None:
    """The AM tells these one by one; with the last one YARN's application is over."""
    world.line.statuses = list(statuses)

    def end(_: object) -> None:
        if world.line._next == len(world.line.statuses):
            world.rm.change(APPLICATION, state="FINISHED")

    world.rm.on_look = end


# ---- submit ------------------------------------------------------------------------------------


def test_submit_detached_prints_the_id(world: World, call: Call) -> None:
    code, out, err = call("submit", str(world.folder / "spec.yaml"), "--detach")
    assert code == 0
    assert out == "application_1700000000000_0001\n"
    assert "yarnam watch application_1700000000000_0001" in err


def test_submit_json(world: World, call: Call) -> None:
    code, out, err = call("submit", str(world.folder / "spec.yaml"), "--json", "--name", "other")
    assert code == 0
    assert err == ""
    found = json.loads(out)
    assert found["application"] == "application_1700000000000_0001"
    assert world.json_of(f"{found['directory']}/job.json")["job"]["name"] == "other"


def test_submit_without_a_terminal_does_not_follow(world: World, call: Call) -> None:
    code, _, _ = call("submit", str(world.folder / "spec.yaml"))
    assert code == 0
    assert world.lines == []


@pytest.fixture
def taken(world: World, call: Call) -> str:
    """A job that writes to the spec's directory of checkpoints; its application."""
    with (world.folder / "spec.yaml").open("a") as spec:
        spec.write("checkpoint: {directory: /ckpt/a}\n")
    code, out, _ = call("submit", str(world.folder / "spec.yaml"), "--detach")
    assert code == ExitCode.OK
    return out.strip()


def test_submit_of_a_second_job_names_the_first_and_the_line(
    world: World, call: Call, taken: str
) -> None:
    path = str(world.folder / "spec.yaml")
    code, _, err = call("submit", path, "--detach")
    assert code == ExitCode.PATH_TAKEN
    for part in (f"{path}:8:14: checkpoint.directory", taken, "yarnam kill", "--takeover"):
        assert part in err
    assert world.rm.killed == []


def test_takeover_needs_an_answer_or_yes(
    world: World, call: Call, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = ("submit", str(world.folder / "spec.yaml"), "--detach", "--takeover")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))  # not a terminal
    code, _, err = call(*submit)
    assert code == ExitCode.USAGE
    assert taken in err
    assert "--yes" in err

    terminal = Stream(is_terminal=True)
    monkeypatch.setattr("sys.stdin", terminal)
    answers = iter(["n", "y"])
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: next(answers))
    code, _, err = call(*submit)
    assert code == ExitCode.PATH_TAKEN
    assert world.rm.killed == []
    code, out, err = call(*submit)
    assert code == ExitCode.OK, err
    assert world.rm.killed == [taken]

    second = out.strip()
    code, _, err = call(*submit, "--yes")
    assert code == ExitCode.OK, err
    assert world.rm.killed == [taken, second]


@pytest.mark.parametrize("other", [("--array", "0-1"), ("--dry-run",)])
def test_takeover_is_for_the_submit_of_one_job(
    world: World, call: Call, other: tuple[str, ...]
) -> None:
    code, _, err = call("submit", str(world.folder / "spec.yaml"), "--takeover", *other)
    assert code == ExitCode.USAGE
    assert other[0] in err


def test_submit_and_watch_ends_with_the_verdict(world: World, call: Call) -> None:
    end = verdict(VerdictKind.FAILED, 90, "worker-0 ended with exit code 3")
    application = "application_1700000000000_0001"

    def look(app: Any) -> None:
        key = next(t for t in app.tags if t.startswith("yarnam-job-")).removeprefix("yarnam-job-")
        world.put(key, "verdict.json", encode(end))
        world.rm.change(application, state="FINISHED", final_status="FAILED")

    world.rm.on_look = look
    code, out, _ = call("submit", str(world.folder / "spec.yaml"), "--watch")
    assert code == 90
    assert "FAILED" in out
    assert "worker-0 ended with exit code 3" in out
    assert f"yarnam logs {application}" in out


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_dry_run_shows_the_plan_and_no_secret(
    world: World, call: Call, options: tuple[str, ...]
) -> None:
    code, out, err = call("submit", str(world.folder / "spec.yaml"), "--dry-run", *options)
    assert code == 0
    assert "s3cret-value" not in out + err
    assert world.left_on_hdfs() == []
    assert world.launcher.started == 0
    if options:
        found = json.loads(out)
        assert found["plan"]["rungs"]
        assert found["job"]["env"] == [["TOKEN", ""], ["PLAIN", "shown"]]
    else:
        assert "RUNG" in out
        assert "yarnam's own runtime" in out


def test_submit_refused(world: World, call: Call) -> None:
    code, out, err = call("submit", str(world.folder / "spec.yaml"), "-q", "root.none")
    assert code == 65
    assert out == ""
    assert "queue root.none does not exist" in err


def test_a_bad_spec_names_file_and_line(world: World, call: Call) -> None:
    (world.folder / "bad.yaml").write_text(SPEC.replace("gpus:", "gpuz:"))
    code, _, err = call("submit", str(world.folder / "bad.yaml"))
    assert code == 65
    assert f"{world.folder}/bad.yaml:5" in err


# ---- looking -----------------------------------------------------------------------------------


def test_status(world: World, call: Call) -> None:
    history = (
        AttemptRecord(1, 0, "NODE", 1.0, 2.0, 2, 1, "hold timeout"),
        AttemptRecord(2, 1, "RACK", 3.0, None, 2, 2),
    )
    world.line.statuses = [
        status(
            step=12,
            total_steps=100,
            loss=0.5,
            attempt=2,
            history=history,
            tasks=(task("worker-0", (0, 1), node="n1", rack="/rack1", gpu_ids=("0", "1")),),
            submitted_at_s=1000.0,
        )
    ]
    world.job()
    code, out, _ = call("status", APPLICATION)
    assert code == 0
    assert "RUNNING, attempt 2 of 10, step 12 of 100, loss 0.5" in out
    assert "worker-0  started  n1    /rack1  0,1   0-1" in out
    assert "hold timeout" in out
    code, out, _ = call("status", "last", "--json")
    assert code == 0
    assert json.loads(out)["tasks"][0]["ranks"] == [0, 1]


def test_a_job_that_was_made_whole_shows_what_was_kept_and_which_nodes_it_refuses(
    world: World, call: Call
) -> None:
    history = (
        AttemptRecord(1, 0, "RACK", 1.0, 2.0, 8, 8, "worker-3 on n5: agent silent"),
        AttemptRecord(2, 0, "RACK", 3.0, None, 1, 1, kept=7),
    )
    refused = RefusedNode("n5", 7200.0, "agent silent: not heard of for 8 s")
    world.line.statuses = [status(attempt=2, history=history, blacklist=(refused,))]
    world.job()
    _, out, _ = call("status", "last")
    assert "1 of 1, 7 kept" in out
    assert "EXCLUDED NODE" in out
    assert out.splitlines()[-1].split()[0] == "n5"
    assert "agent silent: not heard of for 8 s" in out


def test_the_status_of_a_failed_job_is_no_failure_of_the_command(world: World, call: Call) -> None:
    world.job(state="FINISHED", key=KEY)
    world.put(KEY, "verdict.json", encode(verdict(VerdictKind.FAILED, 90, "exit code 3")))
    code, out, _ = call("status", "last")
    assert code == 0
    assert "FAILED: exit code 3" in out


def test_the_last_lines_of_a_failed_process_are_lines(world: World, call: Call) -> None:
    told = "worker-0 exited with code 3\nits last lines:\n  | a\n  | b"
    world.line.statuses = [status(JobState.FAILED, reason=told)]
    world.job()
    _, out, _ = call("status", "last")
    assert (
        "  FAILED: worker-0 exited with code 3\n    its last lines:\n      | a\n      | b\n  queue"
    ) in out


def test_a_waiting_job_is_never_shown_as_running(world: World, call: Call) -> None:
    world.line.statuses = [
        status(JobState.ACQUIRING, asked=8, granted=5, granted_by_level=(("NODE", 4), ("RACK", 1)))
    ]
    world.job()
    for command in ("status", "ps"):
        _, out, _ = call(command, *([] if command == "ps" else ["last"]))
        assert "ACQUIRING" in out
        assert "RUNNING" not in out
    _, out, _ = call("status", "last")
    assert "5 of 8 granted (4 on planned nodes, 1 in one rack)" in out


def test_a_job_in_line_is_shown_with_its_place(world: World, call: Call) -> None:
    """Nothing is asked for yet, and it has days to wait: neither is shown as if it mattered."""
    place = WaitQueueStatus(9, 2, "application_1_0007", "big", 16, "nodes are reserved for it")
    world.line.statuses = [
        status(
            JobState.QUEUED,
            phase="PENDING",
            asked=8,
            wait_queue=place,
            deadline_s=time.time() + 5 * 86400,
            reason="waiting behind 2 jobs (big is first)",
        )
    ]
    world.job()
    _, out, _ = call("status", "last")
    assert "  QUEUED: waiting behind 2 jobs (big is first)\n" in out
    _, out, _ = call("ps")
    assert out.splitlines()[1].split()[4:6] == ["QUEUED", "-"]
    _, out, _ = call("status", "last", "--json")
    assert json.loads(out)["wait_queue"]["ahead"] == 2


def test_a_job_in_line_tells_when_it_is_likely_to_start(world: World, call: Call) -> None:
    now_s = time.time() + 0.5
    start = StartForecast(now_s, now_s + 600, now_s + 1500, now_s + 7500, now_s + 1800)
    untold = StartForecast(now_s, unknown_why="3 GPUs are in use by jobs that take no tickets")
    late = StartForecast(now_s, now_s + 600, now_s + 1500)
    for told, words in (
        (
            start,
            "likely to start in 25m00s, 9 in 10 such jobs within 2h05m (if gangs end as their ages",
        ),
        (untold, "start time unknown: 3 GPUs are in use by jobs that take no tickets"),
        (late, "likely to start in 25m00s, possibly much later (if gangs end as"),
    ):
        turn = WaitQueueStatus(9, 0, reason="first in the queue", start=told)
        world.line.statuses = [status(JobState.QUEUED, phase="PENDING", wait_queue=turn)]
        world.job()
        _, out, _ = call("status", "last")
        assert words in out


def test_ps(world: World, call: Call) -> None:
    assert call("ps") == (0, "", "No active jobs. To include finished jobs, use --all.\n")
    world.line.statuses = [status(asked=2, granted=2, submitted_at_s=1.0)]
    world.job()
    code, out, _ = call("ps")
    assert code == 0
    assert out.splitlines()[1].split()[:6] == [
        APPLICATION, "hello", "me", "root.dl", "RUNNING", "2/2",
    ]  # fmt: skip
    code, out, _ = call("ps", "--json", "--state", "queued")
    assert (code, json.loads(out)) == (0, [])


def test_events(world: World, call: Call) -> None:
    world.line.journal = [JobStarted(1.0), CancelRequested(2.0, "me", "enough")]
    world.job()
    _, out, _ = call("events", "last")
    assert [line.split(" ", 2)[2] for line in out.splitlines()] == [
        "the ApplicationMaster started", "cancelled by me: enough",
    ]  # fmt: skip
    _, out, _ = call("events", "last", "--json")
    assert [event["t"] for event in json.loads(out)] == ["JobStarted", "CancelRequested"]


# ---- watch -------------------------------------------------------------------------------------


def test_watch_prints_a_line_per_change(world: World, call: Call) -> None:
    run_through(
        world,
        status(JobState.ACQUIRING, asked=2, granted=1),
        status(JobState.RUNNING, step=1),
        status(JobState.RUNNING, step=2),  # too soon after the last line
        status(JobState.SUCCEEDED, verdict=verdict(message="all ended well")),
    )
    world.job()
    code, out, _ = call("watch", "last")
    assert code == 0
    lines = out.splitlines()
    assert [line.split()[1].rstrip(",:") for line in lines[:3]] == [
        "ACQUIRING", "RUNNING", "SUCCEEDED",
    ]  # fmt: skip
    assert lines[-1].endswith("SUCCEEDED: all ended well")


def test_watch_json_is_a_document_per_line(world: World, call: Call) -> None:
    run_through(world, status(), status(JobState.CANCELLED, verdict=verdict(code=93)))
    world.job()
    code, out, _ = call("watch", "last", "--json")
    assert code == 93
    assert [json.loads(line)["state"] for line in out.splitlines()] == ["RUNNING", "CANCELLED"]


def test_ctrl_c_on_watch_kills_nothing_and_says_how_to(
    world: World, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Job) -> Iterator[JobStatus]:
        yield status()
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "watch", interrupted)
    world.job()
    code, _, err = call("watch", "last")
    assert code == 130
    assert f"yarnam kill {APPLICATION}" in err
    assert world.rm.killed == []
    assert world.line.cancelled == []


def test_the_live_view_shows_what_matters(world: World) -> None:
    from rich.console import Console

    from yarnam.cli.rendering.live_status import _View

    view = _View(APPLICATION)
    console = Console(width=120, record=True, file=io.StringIO())
    view.status = status(
        step=30,
        total_steps=60,
        loss=0.25,
        tasks=tuple(task(f"worker-{n}", (n,), node=f"n{n}") for n in range(60)),
    )
    console.print(view.render())
    text = console.export_text()
    for part in ("hello", APPLICATION, "RUNNING", "worker-0", "and 20 more", "30/60", "0.25"):
        assert part in text


# ---- logs --------------------------------------------------------------------------------------


def pieces(*given: LogPiece) -> Callable[..., Iterator[LogPiece]]:
    return lambda *_, **__: iter(given)


def test_lines_of_several_processes_do_not_mix(
    world: World, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Job,
        "logs",
        pieces(
            LogPiece("worker-0", 0, b"hel"),
            LogPiece("worker-1", 1, b"wor"),
            LogPiece("worker-0", 0, b"lo\nsec"),
            LogPiece("", None, b"a note", is_note=True),
            LogPiece("worker-1", 1, b"ld\n"),
        ),
    )
    code, out, err = call("logs", APPLICATION)
    assert code == 0
    assert out == "worker-0[0]: hello\nworker-1[1]: world\nworker-0[0]: sec\n"
    assert err == "a note\n"


def test_one_process_is_shown_as_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    garbage = bytes(range(256)) * 4
    monkeypatch.setattr(Job, "logs", pieces(LogPiece("worker-0", 0, garbage + b"\n")))
    assert run(["logs", APPLICATION, "--rank", "0"], Shell(lambda **_: world.client)) == 0
    assert capfdbinary.readouterr().out == garbage + b"\n"


def test_garbage_does_not_reach_a_terminal(
    world: World, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr("yarnam.cli.rendering.console.is_terminal", lambda: True)
    line = b"\x1b]0;title\x07\x00\x9b31m \x1b[31mred\x1b[0m 10%\r 20%\n"
    monkeypatch.setattr(Job, "logs", pieces(LogPiece("worker-0", 0, line)))
    assert run(["logs", APPLICATION, "--rank", "0"], Shell(lambda **_: world.client)) == 0
    assert capfdbinary.readouterr().out == b" 20%\n"
    line = b"\x1b]0;title\x07\x00 \x1b[31mred\x1b[0m\n"
    monkeypatch.setattr(Job, "logs", pieces(LogPiece("worker-0", 0, line)))
    run(["logs", APPLICATION, "--rank", "0"], Shell(lambda **_: world.client))
    shown = capfdbinary.readouterr().out
    assert b"\x1b[31mred\x1b[0m" in shown
    assert b"\x1b]" not in shown
    assert b"\x00" not in shown


def test_a_line_without_end_does_not_pile_up(
    world: World, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = (LogPiece("worker-0", 0, b"x" * 50_000) for _ in range(4))
    monkeypatch.setattr(Job, "logs", lambda *_, **__: endless)
    _, out, _ = call("logs", APPLICATION)
    assert [len(line) for line in out.splitlines()] == [100_013, 100_013]


def test_logs_json(world: World, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Job, "logs", pieces(LogPiece("worker-0", 0, b"a\xff\n", "c1")))
    _, out, _ = call("logs", APPLICATION, "--json")
    assert json.loads(out) == {
        "task": "worker-0", "rank": 0, "container": "c1", "note": False, "text": "a\ufffd\n",
    }  # fmt: skip


# ---- kill --------------------------------------------------------------------------------------


def test_kill(world: World, call: Call) -> None:
    world.job(am=False)
    code, out, _ = call("kill", "last", "--reason", "enough")
    assert code == 0
    assert out == f"{APPLICATION} is finished: CANCELLED\n"
    code, out, _ = call("kill", APPLICATION, "--json")
    assert code == 0
    assert json.loads(out)[0]["verdict"]["message"] == "killed by me: enough"


def test_kill_goes_on_after_one_that_cannot_be_killed(world: World, call: Call) -> None:
    world.job(am=False)
    code, out, err = call("kill", "nobody", APPLICATION)
    assert code == 64
    assert "is finished: CANCELLED" in out
    assert "no job whose name starts with 'nobody'" in err


# ---- doctor ------------------------------------------------------------------------------------


def test_doctor_without_a_ticket_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    def no_ticket(**_: object) -> Any:
        raise NoPermission("looking for a Kerberos ticket: there is none: run kinit", hint="kinit")

    assert run(("doctor", "--json"), Shell(no_ticket)) == ExitCode.NO_PERMISSION
    (finding,) = json.loads(capsys.readouterr().out)
    assert (finding["part"], finding["health"]) == ("Kerberos", "fail")
    assert "run kinit" in finding["message"]


def test_doctor_names_what_is_wrong_and_what_to_do(world: World, call: Call) -> None:
    world.rm.failure = Unavailable("no answer from the ResourceManager", hint="Start it.")
    code, out, _ = call("doctor", "--json")
    findings = {finding["part"]: finding for finding in json.loads(out)}
    assert findings["ResourceManager"]["health"] == "fail"
    assert findings["ResourceManager"]["hint"] == "Start it."
    assert findings["Java"]["health"] == "warn"
    assert "Submitting does without" in findings["yarn command"]["hint"]
    assert findings["HDFS"]["health"] == "ok"
    assert findings["Skein"]["health"] == "ok"
    assert code == 69
    assert world.left_on_hdfs() == []
    world.site.environ = {**world.site.environ, "YARNAM_SUBMIT": "driver"}
    code, out, _ = call("doctor", "--json")
    assert json.loads(out)[1]["part"] == "Java"
    assert json.loads(out)[1]["health"] == "fail"
    assert code == 78  # of the first failure: no Java on the PATH
    code, out, _ = call("doctor")
    assert "fail  ResourceManager" in out
