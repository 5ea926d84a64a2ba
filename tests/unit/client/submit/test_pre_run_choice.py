"""Which jobs get a pre-run, and what is declared for it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from hdfs_utils.errors import Unavailable as HdfsUnavailable
from tests.fakes.files import MemoryFiles
from tests.unit.client.world import World, job_spec
from yarnam.adapters.hdfs.pre_run_store import KEEP_S, HdfsPreRuns, PassedPrograms
from yarnam.cli.rendering.plan_text import as_plain, as_text
from yarnam.client.submit.pre_run_choice import ShippedContent, program_of
from yarnam.core.model.ids import PRE_RUN_ROLE
from yarnam.core.model.job_spec import JobSpec, PreRunMode, PreRunSpec, ShippedFile
from yarnam.core.model.job_status import PreRunState, PreRunStatus
from yarnam.core.model.plans import LocalityLevel
from yarnam.wire.codec import decode, encode
from yarnam.wire.records import JobRecord, PreRunRecord

AUTO = PreRunSpec(PreRunMode.AUTO, min_gpus=8)
ROOT = "/user/me/.yarnam/pre-runs"
PASSED = PreRunStatus(PreRunState.PASSED, step_s=0.25, peak_memory_mib=700)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def record_of(world: World, job: JobSpec) -> JobRecord:
    directory = world.client.submit(job).directory
    return decode(world.files.read_bytes(f"{directory}/job.json"), JobRecord)


def passed(world: World, record: JobRecord, *, at_s: float | None = None) -> str:
    """As an ApplicationMaster notes it."""
    store = HdfsPreRuns(PassedPrograms(world.files, ROOT), record.job.pre_run.key, "application_1")
    store.settle(PASSED, time.time() if at_s is None else at_s)
    return f"{ROOT}/{record.job.pre_run.key}"


def test_a_large_gang_gets_one_target_and_no_early_containers(world: World) -> None:
    record = record_of(world, job_spec(pre_run=AUTO))
    assert record.job.pre_run.is_due
    [target] = [one for one in record.targets if one.role == PRE_RUN_ROLE]
    assert (target.level, target.resources.gpus) == (LocalityLevel.ANY, 1)
    assert not record.prelaunched, "nothing of the gang is asked for yet"


@pytest.mark.parametrize(
    "pre_run", [PreRunSpec(), replace(AUTO, min_gpus=9), PreRunSpec(PreRunMode.OFF)]
)
def test_a_small_gang_starts_as_without(world: World, pre_run: PreRunSpec) -> None:
    record = record_of(world, job_spec(pre_run=pre_run))
    assert not record.job.pre_run.is_due
    assert not [one for one in record.targets if one.role == PRE_RUN_ROLE]
    assert record.prelaunched


def test_what_has_passed_is_not_tried_again_for_a_while(world: World) -> None:
    job = job_spec(pre_run=AUTO)
    record = record_of(world, job)
    passed(world, record)
    assert not record_of(world, job).job.pre_run.is_due
    assert record_of(
        world, replace(job, pre_run=replace(AUTO, mode=PreRunMode.ALWAYS))
    ).job.pre_run.is_due
    passed(world, record, at_s=time.time() - KEEP_S - 60)
    assert record_of(world, job).job.pre_run.is_due


def test_other_code_another_command_or_environment_is_another_program(
    world: World, tmp_path: Path
) -> None:
    code = tmp_path / "train.py"
    code.write_text("print(1)")
    job = job_spec(pre_run=AUTO, files=(ShippedFile("train.py", str(code)),))
    passed(world, record_of(world, job))
    assert not record_of(world, job).job.pre_run.is_due
    assert not record_of(world, replace(job, name="other")).job.pre_run.is_due
    [role] = job.roles
    others = [
        replace(job, roles=(replace(role, command=("python3", "eval.py")),)),
        replace(job, env=(("LR", "0.1"),)),
        replace(job, roles=(replace(role, processes_per_task=2),)),
    ]
    for other in others:
        assert record_of(world, other).job.pre_run.is_due
    code.write_text("print(2)")
    assert record_of(world, job).job.pre_run.is_due


def test_the_value_of_a_secret_is_not_in_the_key() -> None:
    job = job_spec(env=(("TOKEN", ""),), secret_env=("TOKEN",))
    assert program_of(job, ()).env == (("TOKEN", ""),)
    one = program_of(job, [ShippedContent("a", "", 5, 1), ShippedContent("b", "x")])
    assert one == program_of(job, [ShippedContent("b", "x"), ShippedContent("a", "", 5, 1)])
    assert one.key != program_of(job, [ShippedContent("a", "", 5, 2)]).key


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"\xff" * 100,
        encode(PreRunRecord("0" * 64, "application_1", 1e9)),
        encode(PreRunRecord("f" * 64, "application_1", 1e9, step_s=-1.0)),
    ],
)
def test_what_is_no_record_of_this_program_counts_as_none(content: bytes) -> None:
    files = MemoryFiles()
    files.mkdirs(ROOT)
    files.write_bytes(f"{ROOT}/{'f' * 64}", content)
    assert PassedPrograms(files, ROOT, lambda: 1e9).find("f" * 64, "me") is None


def test_another_users_record_does_not_count() -> None:
    files = MemoryFiles()
    passed_programs = PassedPrograms(files, ROOT, lambda: 1e9)
    passed_programs.put(PreRunRecord("f" * 64, "application_1", 1e9))
    assert passed_programs.find("f" * 64, "me") is not None
    assert passed_programs.find("f" * 64, "somebody") is None


def test_without_an_answer_of_hdfs_the_program_is_tried(world: World) -> None:
    job = job_spec(pre_run=AUTO)
    passed(world, record_of(world, job))

    def away(_operation: str, path: str) -> None:
        if path.startswith(ROOT):
            raise HdfsUnavailable("away")

    world.files.fail = away
    assert record_of(world, job).job.pre_run.is_due


def test_a_pre_run_that_was_given_up_is_not_noted() -> None:
    files = MemoryFiles()
    store = HdfsPreRuns(PassedPrograms(files, ROOT), "f" * 64, "application_1")
    store.settle(PreRunStatus(PreRunState.GIVEN_UP), 1e9)
    store.settle(PreRunStatus(PreRunState.PASSED, needs_memory=True), 1e9)
    assert not files.exists(ROOT)


def test_its_checkpoints_are_thrown_away(tmp_path: Path) -> None:
    mine = tmp_path / ".pre-run.application_1"
    (mine / "step-3").mkdir(parents=True)
    (tmp_path / "step-9").mkdir()
    passed_programs = PassedPrograms(MemoryFiles(), ROOT)
    HdfsPreRuns(passed_programs, "", "application_1", f"file://{mine}").settle(PreRunStatus(), 1e9)
    assert [path.name for path in tmp_path.iterdir()] == ["step-9"]


def shipping(tmp_path: Path) -> JobSpec:
    """A job that ships a file, a folder and an environment of its own."""
    (tmp_path / "train.py").write_text("print()")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "model.py").write_text("layers = 3")
    (tmp_path / "env.tar.gz").write_bytes(b"packed")
    job = job_spec(pre_run=AUTO)
    return replace(
        job,
        environment=replace(job.environment, archive=str(tmp_path / "env.tar.gz")),
        files=(
            ShippedFile("train.py", str(tmp_path / "train.py")),
            ShippedFile("code", str(tmp_path / "code")),
        ),
    )


def test_the_plan_knows_what_a_pre_run_has_measured(world: World, tmp_path: Path) -> None:
    job = shipping(tmp_path)
    assert world.client.outlook(job).measured is None
    passed(world, record_of(world, job))
    found = world.client.outlook(job)
    assert found.measured is not None
    assert (found.measured.step_s, found.measured.peak_memory_mib) == (0.25, 700)
    text = "\n".join(map(str, as_text(found)))
    assert "Passed a pre-run in application_1: a step takes 0.25 s, at most 700 MiB" in text
    assert as_plain(found)["measured"]["step_s"] == 0.25
    (tmp_path / "code" / "model.py").write_text("layers = 4")
    assert world.client.outlook(job).measured is None, "another program"
    off = replace(job, pre_run=PreRunSpec(PreRunMode.OFF))
    assert world.client.outlook(off).measured is None


@pytest.mark.parametrize(("memory", "processes", "needed"), [(700, 1, None), (1399, 2, 1400)])
def test_the_plan_tells_of_too_little_memory(
    world: World, memory: int, processes: int, needed: int | None
) -> None:
    job = job_spec(pre_run=AUTO)
    (role,) = job.roles
    resources = replace(role.resources, memory_mib=memory)
    job = replace(job, roles=(replace(role, resources=resources, processes_per_task=processes),))
    passed(world, record_of(world, job))
    found = world.client.outlook(job)
    assert found.needs_more_memory == needed
    assert any("more than it asks for" in str(line) for line in as_text(found)) is bool(needed)
