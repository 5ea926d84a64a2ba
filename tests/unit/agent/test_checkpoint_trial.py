"""A pre-run whose checkpoints cannot be written fails before its program starts."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, cast

import pytest

from yarnam.agent.data import checkpoint_trial
from yarnam.agent.data.checkpoint_trial import checkpoint_problem
from yarnam.agent.launch.task_run import Graces, ProcessPlan, TaskRun
from yarnam.agent.machine.agent_events import RunEnded
from yarnam.core.model.outcomes import ExitKind, FailureClass

NOWHERE = "file:///proc/no/.pre-run.application_1"


def problem_of(directory: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    return asyncio.run(checkpoint_problem(directory, env))


def test_a_directory_that_can_be_made_and_written_is_no_problem(tmp_path: Path) -> None:
    assert problem_of(f"file://{tmp_path}/checkpoints/.pre-run.application_1") == ""
    assert list(tmp_path.rglob("*.trial*")) == []


def test_one_that_cannot_is_named() -> None:
    assert problem_of(NOWHERE).startswith(f"no checkpoint can be written to {NOWHERE}: hdfs_utils.")


def test_a_file_system_that_does_not_answer_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_trial, "TRIAL_LIMIT_S", 0.01)
    assert problem_of(NOWHERE) == ""


class NoKeeper:
    """Nothing is started."""

    on_exit: object = None

    async def sweep(self) -> int:
        return 0


def test_the_process_fails_with_the_class_of_what_was_found(tmp_path: Path) -> None:
    text = f"no checkpoint can be written to {NOWHERE}: hdfs_utils.errors.PermissionDenied: ann"
    plan = ProcessPlan(
        0, 0, "", (), {}, tmp_path / "log", problem=text, problem_kind=ExitKind.NON_ZERO
    )
    changes: list[object] = []

    async def run() -> TaskRun:
        keeper = cast("Any", NoKeeper())
        task = TaskRun(keeper, 1, tmp_path / "stop", Graces(1.0, 1.0), changes.append)
        await task.run((plan,), tmp_path)
        return task

    [process] = asyncio.run(run()).processes
    assert (process.kind, process.code) == (ExitKind.NON_ZERO, 1)
    assert process.finding is not None
    assert process.finding.failure is FailureClass.PERMISSION_ERROR
    assert text in process.finding.line
    assert changes == [RunEnded(1)], "it was never started"
