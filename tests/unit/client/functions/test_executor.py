"""Functions as jobs: what is shipped is run here as a container would, and its result fetched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client.world import World, verdict
from yarnam import AsyncClient, JobEnded, WaitTimeout
from yarnam.client import FunctionFailed, Job, RemoteTraceback
from yarnam.client.functions import call_package, call_results, function_executor
from yarnam.client.functions.call_package import CALL_FILE, pack_call
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import (
    BadConfig,
    BadSpec,
    InternalError,
    NoPermission,
    UsageError,
    UserFailed,
    WireMismatch,
)
from yarnam.wire.codec import encode

SPEC: dict[str, Any] = {"queue": "root.dl", "gpus": 1}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def run_job(world: World, job: Job, folder: Path, *, ranks: int = 1) -> None:
    """What the containers would do: fetch the file, run it, and leave what it leaves."""
    record = job.record().job
    (shipped,) = record.files
    assert shipped.name == CALL_FILE
    assert record.roles[0].command == ("python", CALL_FILE)
    (folder / CALL_FILE).write_bytes(world.files.read_bytes(shipped.source))
    results = folder / "results"
    codes = []
    for rank in range(ranks):
        environ = {
            **os.environ,
            "YARNAM_RESULTS": results.as_uri(),
            "YARNAM_RANK": str(rank),
            "YARNAM_WORLD_SIZE": str(ranks),
        }
        command = [sys.executable, str(folder / CALL_FILE)]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
        codes.append(done.returncode)
        target = dict(record.env)["YARNAM_RESULTS"]
        world.files.write_bytes(
            f"{target}/{rank}", (results / str(rank)).read_bytes(), overwrite=True
        )
    end(world, job, max(codes))


def end(world: World, job: Job, code: int) -> None:
    kind = VerdictKind.FAILED if code else VerdictKind.SUCCEEDED
    content = encode(verdict(kind, 90 if code else 0, f"exit code {code}"))
    world.put(job.directory.rpartition("/")[2], "verdict.json", content)
    world.rm.change(job.id, state="FINISHED", final_status=kind.name)


class Odd(Exception):
    """Cannot be made again from its pickle."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def test_a_function_returns_its_value(world: World, tmp_path: Path) -> None:
    factor = 3

    def scaled(x: int, *, by: int = 1) -> dict[str, Any]:
        return {"value": x * by * factor, "rank": int(os.environ["YARNAM_RANK"])}

    call = world.client.executor({**SPEC, "gpus": 2}).submit(scaled, 7, by=2)
    assert world.rm.apps[call.job.id].name == "scaled"
    assert not call.done()
    run_job(world, call.job, tmp_path, ranks=2)
    assert call.done()
    assert call.result() == {"value": 42, "rank": 0}
    assert [one["rank"] for one in call.results()] == [0, 1]
    assert call.exception() is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_what_others_could_have_left_is_not_unpickled(
    world: World, tmp_path: Path, mode: int
) -> None:
    call = world.client.executor(SPEC).submit(os.getpid)
    run_job(world, call.job, tmp_path)
    world.files.chmod(call.job.directory, mode)
    with pytest.raises(NoPermission, match="others than me may write"):
        call.result()
    world.files.chmod(call.job.directory, 0o700)
    assert call.result() > 0


def test_a_result_of_another_user_is_not_unpickled(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = world.client.executor(SPEC).submit(os.getpid)
    run_job(world, call.job, tmp_path)
    listed = world.files.list

    def planted(path: str) -> Any:
        return (replace(one, owner="mallory") for one in listed(path))

    monkeypatch.setattr(world.files, "list", planted)
    with pytest.raises(NoPermission, match="can run code here"):
        call.result()


def test_a_whole_directory_of_another_user_is_not_unpickled(world: World, tmp_path: Path) -> None:
    call = world.client.executor(SPEC).submit(os.getpid)
    run_job(world, call.job, tmp_path)
    world.files.chown(call.job.directory, "nobody")
    for entry in world.files.walk(call.job.directory):
        world.files.chown(entry.path, "nobody")
    with pytest.raises(NoPermission, match="can run code here"):
        call.result()


def test_an_exception_comes_back_with_its_traceback(world: World, tmp_path: Path) -> None:
    def fails() -> None:
        raise KeyError("no such weight")

    call = world.client.executor(SPEC).submit(fails)
    run_job(world, call.job, tmp_path)
    with pytest.raises(KeyError, match="no such weight") as caught:
        call.result()
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "in fails" in str(caught.value.__cause__)
    assert isinstance(call.exception(), KeyError)


def test_an_exception_that_cannot_be_pickled_comes_as_its_text(
    world: World, tmp_path: Path
) -> None:
    def fails() -> None:
        raise Odd(1, 2)

    call = world.client.executor(SPEC).submit(fails)
    run_job(world, call.job, tmp_path)
    with pytest.raises(FunctionFailed, match="Odd: 1 and 2") as caught:
        call.result()
    assert caught.value.type_name == "Odd"


def test_a_value_that_cannot_be_pickled_fails_the_job(world: World, tmp_path: Path) -> None:
    def a_lock() -> Any:
        import threading

        return threading.Lock()

    call = world.client.executor(SPEC).submit(a_lock)
    run_job(world, call.job, tmp_path)
    with pytest.raises(TypeError, match="pickle"):
        call.result()


def test_a_job_that_failed_without_a_result_raises_its_verdict(world: World) -> None:
    call = world.client.executor(SPEC).submit(print)
    with pytest.raises(WaitTimeout):
        call.result(0.05)
    end(world, call.job, 3)
    with pytest.raises(UserFailed, match="exit code 3") as caught:
        call.result()
    assert isinstance(caught.value, JobEnded)


def test_success_without_a_result_is_said(world: World) -> None:
    call = world.client.executor(SPEC).submit(print)
    end(world, call.job, 0)
    with pytest.raises(InternalError, match="left no result"):
        call.result()


@pytest.mark.parametrize("content", [b"", b"{}\n", b"[1]\n", b'{"ok": "yes"}\n', b"\xff\n"])
def test_a_damaged_result_is_refused(world: World, content: bytes) -> None:
    call = world.client.executor(SPEC).submit(print)
    world.files.write_bytes(f"{call.job.directory}/results/0", content)
    with pytest.raises(WireMismatch):
        call_results.read_result(world.site, call.job.directory, 0)


def test_a_spec_of_several_roles_has_no_place_for_a_function(world: World) -> None:
    role = {"tasks": 1, "gpus": 1, "command": "true"}
    spec = {"queue": "root.dl", "roles": {"worker": role, "ps": role}}
    with pytest.raises(BadSpec, match="one role"):
        world.client.executor(spec)


def test_what_cannot_be_pickled_or_is_too_large_is_refused_here(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    run = world.client.executor(SPEC)
    with pytest.raises(BadSpec, match="print cannot be pickled"):
        run.submit(print, threading.Lock())
    monkeypatch.setattr(call_package, "MAX_CALL_BYTES", 100)
    with pytest.raises(BadSpec, match="more than 100"):
        run.submit(print, b"x" * 200)
    assert world.rm.apps == {}


def test_cloudpickle_is_asked_for_where_it_is_missing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(BadConfig) as caught:
        world.client.executor(SPEC)
    assert "yarnam[functions]" in caught.value.hint


def test_another_version_of_python_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    content = pack_call(print, (), {})
    monkeypatch.undo()
    (tmp_path / CALL_FILE).write_bytes(content)
    environ = {**os.environ, "YARNAM_RESULTS": (tmp_path / "r").as_uri()}
    command = [sys.executable, str(tmp_path / CALL_FILE)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "comes from Python 3.99" in done.stderr


# ---- many --------------------------------------------------------------------------------------


def test_a_map_is_one_array_of_jobs_in_order(world: World, tmp_path: Path) -> None:
    def add(one: int, two: int) -> int:
        return one + two

    found = world.client.executor(SPEC).map_array(add, [1, 2, 3], [10, 20, 30, 40])
    assert len(found) == 3
    for job in found.array.submitted():
        run_job(world, job, tmp_path)
    assert found.results() == [11, 22, 33]
    assert len({row.application for row in world.rm.apps.values()}) == 3


def test_a_key_starts_each_call_once(world: World) -> None:
    run = world.client.executor(SPEC)
    first = run.map_array(print, range(3), idempotency_key="sweep")
    again = run.map_array(print, range(5), idempotency_key="sweep")
    assert [job.id for job in again.array.submitted()][:3] == [
        job.id for job in first.array.submitted()
    ]
    assert len(world.rm.apps) == 5
    assert first.array.id == again.array.id


def test_of_an_array_that_cannot_be_submitted_each_call_says_why(world: World) -> None:
    def refuse(_: Any) -> None:
        raise BadSpec("not this one")

    world.launcher.on_submit = refuse
    found = world.client.executor(SPEC).map_array(print, range(2))
    for call in found:
        with pytest.raises(BadSpec, match="not this one"):
            call.result()
        assert call.done()


@pytest.mark.asyncio
async def test_the_same_for_asyncio(world: World, tmp_path: Path) -> None:
    def double(x: int) -> int:
        if x < 0:
            raise ValueError("negative")
        return 2 * x

    async with AsyncClient(site=world.site) as client:
        run = await client.executor(SPEC)
        call = await run.submit(double, 4)
        failing = await run.submit(double, -1)
        run_job(world, (await call.job()).handle, tmp_path)
        run_job(world, (await failing.job()).handle, tmp_path)
        assert await call.result(20) == 8
        assert await call.done()
        with pytest.raises(ValueError, match="negative"):
            await failing.result(20)
        assert isinstance(await failing.exception(20), ValueError)
        many = await run.map_array(double, [5, 6])
        for job in await many.array.submitted():
            run_job(world, job.handle, tmp_path)
        assert await many.results(20) == [10, 12]


def test_the_name_of_a_lambda_is_a_name(world: World) -> None:
    function: Callable[[], int] = lambda: 1  # noqa: E731
    call = world.client.executor(SPEC).submit(function)
    assert world.rm.apps[call.job.id].name == "lambda"
    named = world.client.executor({**SPEC, "name": "mine"}).submit(function)
    assert world.rm.apps[named.job.id].name == "mine"
    assert function_executor.DEFAULT_NAME == "function"


# ---- several calls in one job ------------------------------------------------------------------


def test_calls_share_jobs_and_keep_their_order(world: World, tmp_path: Path) -> None:
    def inverted(x: int) -> float:
        return 1 / x

    run = world.client.executor(SPEC)
    found = run.map_array(inverted, [1, 2, 0, 4, 5], calls_per_job=3, idempotency_key="five")
    jobs = found.array.submitted()
    assert (len(found), len(jobs), len(world.rm.apps)) == (5, 2, 2)
    for job in jobs:
        run_job(world, job, tmp_path)
    assert [found[n].result() for n in (0, 1, 3, 4)] == [1.0, 0.5, 0.25, 0.2]
    with pytest.raises(ZeroDivisionError) as caught:
        found[2].result()
    assert "in inverted" in str(caught.value.__cause__)
    assert found[1].exception() is None
    again = run.map_array(inverted, [1, 2, 0, 4, 5], calls_per_job=3, idempotency_key="five")
    assert [job.id for job in again.array.submitted()] == [job.id for job in jobs]
    assert again[4].result() == 0.2


def test_the_processes_of_a_job_share_its_calls(world: World, tmp_path: Path) -> None:
    def where(_: int) -> int:
        return int(os.environ["YARNAM_RANK"])

    found = world.client.executor({**SPEC, "gpus": 2}).map_array(where, range(5), calls_per_job=9)
    [job] = found.array.submitted()
    run_job(world, job, tmp_path, ranks=2)
    assert found.results() == [0, 1, 0, 1, 0]


def test_of_a_job_that_failed_each_call_says_so(world: World) -> None:
    found = world.client.executor(SPEC).map_array(print, range(2), calls_per_job=2)
    [job] = found.array.submitted()
    end(world, job, 3)
    for call in found:
        with pytest.raises(UserFailed, match="exit code 3"):
            call.result()


def test_a_value_that_cannot_be_pickled_fails_its_own_call(world: World, tmp_path: Path) -> None:
    def a_lock(is_one: bool) -> Any:
        import threading

        return threading.Lock() if is_one else 7

    found = world.client.executor(SPEC).map_array(a_lock, [True, False], calls_per_job=2)
    run_job(world, found.array.submitted()[0], tmp_path)
    with pytest.raises(TypeError, match="pickle"):
        found[0].result()
    assert found[1].result() == 7


def test_no_calls_per_job_are_refused(world: World) -> None:
    with pytest.raises(UsageError):
        world.client.executor(SPEC).map_array(print, range(2), calls_per_job=0)
