"""``yarnam explain``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.cli.terminal import in_pipes
from tests.unit.client.world import APPLICATION, World, status, verdict
from yarnam.cli.shell import Shell, run
from yarnam.core.failures.process_failure import UNKNOWN
from yarnam.core.model.job_status import AttemptRecord, JobState, RoleStatus
from yarnam.core.model.outcomes import (
    FirstCause,
    Origin,
    SlownessCause,
    Straggler,
    Stream,
    VerdictKind,
)

PEER = """\
Traceback (most recent call last):
  File "train.py", line 8, in <module>
    dist.all_reduce(x)
RuntimeError: [gloo/transport/tcp/pair.cc:598] Connection closed by peer [127.0.0.3]:4711
"""
MISSING = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'nope'\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world")


def explain(world: World, *arguments: str) -> tuple[int, str, str]:
    with in_pipes() as (out, err):
        code = run(["explain", *arguments], Shell(lambda **_: world.client))
    return code, out.content, err.content


def test_the_first_cause_among_several_logs(world: World, tmp_path: Path) -> None:
    (tmp_path / "rank-0").write_text(PEER)
    (tmp_path / "rank-1").write_text(MISSING)
    logs = (f"--log={tmp_path / name}" for name in ("rank-0", "rank-1"))
    code, out, _ = explain(world, *logs)
    assert code == 0
    assert out.splitlines()[0] == "rank-1 failed: import-error"
    assert "  evidence  ModuleNotFoundError: No module named 'nope'" in out
    assert "  action    never: the same would happen again" in out
    assert "  to act    user: the job's code, inputs or spec have to change" in out
    assert "  after it  rank-0: peer-lost (gloo-peer)" in out


def test_an_exit_code_of_a_process_and_of_yarnam(world: World) -> None:
    _, out, _ = explain(world, "--exit-code", "91")
    assert out.startswith("of yarnam itself: NEVER_FITS: No state of this cluster")
    _, out, _ = explain(world, "--exit-code", "193", "--json")
    assert json.loads(out)["finding"]["failure"] == "declared-transient"


def test_a_job_with_its_attempts(world: World) -> None:
    cause = FirstCause("worker-1", 1, "n1", "exited with code 3", UNKNOWN)
    told = replace(verdict(VerdictKind.FAILED, 90, "worker-1 failed"), cause=cause)
    lost = AttemptRecord(1, 0, "NODE", 1.0, 2.0, outcome="worker-0 on n2: node lost")
    world.line.statuses = [status(JobState.FAILED, history=(lost,), verdict=told)]
    world.job()
    code, out, _ = explain(world, APPLICATION)
    assert code == 0
    assert out.splitlines()[:3] == [
        "attempt 1: worker-0 on n2: node lost",
        "FAILED: worker-1 failed",
        "worker-1 on n1 exited with code 3: unknown",
    ]


@pytest.mark.parametrize(
    ("stream", "text"), [(Stream.STDERR, "to stderr, by 1"), (None, "by 1"), (Stream.STDOUT, "to")]
)
def test_where_and_when_the_line_was_written(
    world: World, stream: Stream | None, text: str
) -> None:
    finding = replace(UNKNOWN, line="ValueError: x", origin=Origin(stream, 1e9))
    cause = FirstCause("worker-1", 1, "n1", "exited with code 3", finding)
    told = replace(verdict(VerdictKind.FAILED, 90, "worker-1 failed"), cause=cause)
    world.line.statuses = [status(JobState.FAILED, verdict=told)]
    world.job()
    _, out, _ = explain(world, APPLICATION)
    assert f"  written   {text}".replace("by 1", "by 2001-09-") in out
    _, out, _ = explain(world, APPLICATION, "--json")
    assert json.loads(out)["verdict"]["cause"]["finding"]["origin"] == {
        "stream": stream.value if stream else None,
        "at_s": 1e9,
    }


def test_a_job_says_what_became_of_its_roles(world: World) -> None:
    """An optional role that has failed is no attempt and no verdict: nothing else would tell."""
    roles = (
        RoleStatus("ps", "service, stopped when worker complete", 2, 0, 0, "2 stopped"),
        RoleStatus("eval", "optional", 1, 0, 1, "1 failed (the job goes on)"),
    )
    world.line.statuses = [status(JobState.SUCCEEDED, roles=roles, verdict=verdict())]
    world.job()
    _, out, _ = explain(world, APPLICATION)
    assert out.splitlines()[:3] == [
        "role ps (service, stopped when worker complete): 2 stopped",
        "role eval (optional): 1 failed (the job goes on)",
        "SUCCEEDED: ",
    ]
    assert [
        one["failed"] for one in json.loads(explain(world, APPLICATION, "--json")[1])["roles"]
    ] == [0, 1]


def test_a_job_with_stragglers(world: World) -> None:
    slow = Straggler(1, "n2", 0.8, 0.4, 1.5, SlownessCause.NODE)
    before = AttemptRecord(1, 0, "NODE", 1.0, 2.0, outcome="moved", stragglers=(slow,))
    now = AttemptRecord(2, 0, "NODE", 2.0, stragglers=(replace(slow, rank=0, node="n1"),))
    world.line.statuses = [status(JobState.RUNNING, history=(before, now))]
    world.job()
    _, out, _ = explain(world, APPLICATION)
    assert out.splitlines()[:4] == [
        "attempt 1: moved",
        f"  straggler: {slow.words}",
        "attempt 2:",
        f"  straggler: {now.stragglers[0].words}",
    ]
    _, out, _ = explain(world, APPLICATION, "--json")
    found = json.loads(out)["stragglers"]
    assert [(one["attempt"], one["node"], one["cause"]) for one in found] == [
        (1, "n2", "node"),
        (2, "n1", "node"),
    ]


@pytest.mark.parametrize("arguments", [(), ("last", "--exit-code", "1"), ("--log", "/nowhere")])
def test_what_cannot_be_explained(world: World, arguments: tuple[str, ...]) -> None:
    code, _, err = explain(world, *arguments)
    assert code == 64
    assert err


def test_logs_are_judged_by_the_sites_rules_too(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, rules = tmp_path / "rank-0.log", tmp_path / "rules.yaml"
    log.write_text("no licence is free\n")
    rules.write_text("rules:\n- {id: licences, class: killed, patterns: [no licence is free]}\n")
    monkeypatch.setenv("YARNAM_FAILURE_RULES", str(rules))
    code, out, _ = explain(world, "--log", str(log))
    assert code == 0
    assert "licences" in out
