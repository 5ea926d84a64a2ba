"""TonY's own end-to-end cases end here as there, or the head of the spec says why not.

Cases: ``TestTonyE2E.java`` of TonY 0.5, with its command lines as they are. ``PROGRAMS`` are the
scripts that they run, each by how long it takes and the exit code that it ends with.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.unit.gang.play import Play, failing, of, stopped
from yarnam.cli.shell import run
from yarnam.core.model.actions import Finish, LaunchGang, StopTask
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import JobSpec
from yarnam.errors import ExitCode
from yarnam.spec import parse_spec_dict

PROGRAMS = {
    "exit_0.py": (1, 0),
    "exit_0_check_env.py": (1, 0),
    "exit_0_check_pytorchenv.py": (1, 0),
    "check_env_and_venv.py": (1, 0),
    "check_archive_file_localization.py": (1, 0),
    "check_tb_port_set_in_chief_only.py": (1, 0),
    "check_tb_port_no_set_in_chief.py": (30, 0),
    "check_horovod_env.py": (1, 0),
    "horovod_debug_driver.py": None,
    "exit_1.py": (1, 1),
    "sleep_10_and_exit_1.py": (10, 1),
    "sleep_30.py": (30, 0),
    "forever_not_exit.py": None,
    "ls": (1, 0),
}
SUCCEEDED, FAILED, FOR_EVER = "SUCCEEDED", "FAILED", "never ends"

SRC = "--src_dir scripts --hdfs_classpath /yarn/lib --container_env SKIP_HADOOP_PATH=true"
PYTHON = f"{SRC} --python_binary_path python"
VENV = f"{SRC} --python_venv test.zip --shell_env ENV_CHECK=ENV_CHECK"
ONE = "--conf tony.worker.instances=1"
PS = f"{ONE} --conf tony.ps.instances=1"
APPLICATION = "--conf tony.application"
DEPENDENT = (
    f"{VENV} --executes 'python exit_0.py' --conf tony.chief.instances=1 "
    "--conf tony.worker.instances=2 --conf tony.worker.command='python forever_not_exit.py' "
    f"{APPLICATION}.framework=tensorflow {APPLICATION}.group.A=chief "
    f"{APPLICATION}.dependency.worker.timeout.after.A=10"
)
IGNORED = f"{APPLICATION}.dependency.worker.timeout.after.A.ignored=true"
HOROVOD = f"{VENV} {APPLICATION}.framework=horovod"
TESTS = "tony.containers.envs"


class Case(NamedTuple):
    line: str
    tony: str
    told: str = ""
    """The key by which the head tells how the job ends here, where that is otherwise."""
    ours: str = ""


CASES = {
    "single node passes": Case(
        f"{PYTHON} --executes exit_0_check_env.py --shell_env ENV_CHECK=ENV_CHECK", SUCCEEDED
    ),
    "missed heartbeats fail": Case(
        f"{PYTHON} --executes exit_0_check_env.py {PS} "
        "--container_env TEST_TASK_EXECUTOR_NUM_HB_MISS=5",
        *(FAILED, TESTS, SUCCEEDED),
    ),
    "a slow worker passes": Case(
        f"{PYTHON} --executes exit_0_check_env.py --shell_env ENV_CHECK=ENV_CHECK "
        "--container_env TEST_TASK_EXECUTOR_SKEW=worker#0#30000 "
        "--conf tony.ps.instances=1 --conf tony.worker.instances=2",
        SUCCEEDED,
    ),
    "a worker passes": Case(f"{VENV} --executes 'python check_env_and_venv.py' {ONE}", SUCCEEDED),
    "pytorch passes": Case(
        f"{PYTHON} --executes exit_0_check_pytorchenv.py {APPLICATION}.framework=pytorch "
        "--conf tony.ps.instances=0 --conf tony.worker.instances=2",
        SUCCEEDED,
    ),
    "a worker fails": Case(f"{PYTHON} --executes exit_1.py {PS}", FAILED),
    "single node fails": Case(f"{PYTHON} --executes exit_1.py", FAILED),
    "the AM crashes": Case(
        f"{PYTHON} --executes exit_0.py --container_env TEST_AM_CRASH=true",
        *(FAILED, TESTS, SUCCEEDED),
    ),
    "the AM throws": Case(
        f"{PYTHON} --executes exit_0.py --container_env TEST_AM_THROW_EXCEPTION_CRASH=true",
        *(FAILED, TESTS, SUCCEEDED),
    ),
    "stages": Case(
        f"{PYTHON} --executes exit_0.py {PS} --conf tony.db.instances=1 "
        f"--conf tony.dbloader.instances=1 {APPLICATION}.prepare-stage=dbloader,db "
        f"{APPLICATION}.training-stage=ps,worker",
        SUCCEEDED,
    ),
    "worker 0 is killed": Case(
        f"{PYTHON} --executes exit_0.py --container_env TEST_WORKER_TERMINATED=true {ONE}",
        *(FAILED, TESTS, SUCCEEDED),
    ),
    "the client's connection": Case(
        "--src_dir scripts --executes exit_0.py --python_binary_path python", SUCCEEDED
    ),
    "files": Case(
        f"--executes 'python check_archive_file_localization.py' {SRC} {ONE} "
        "--conf tony.ps.instances=0 --conf "
        "tony.worker.resources=test.zip::test20.zip,test2.zip#archive,,common.zip,/yarn/lib",
        SUCCEEDED,
    ),
    "only the chief has TensorBoard's port": Case(
        f"--executes 'python check_tb_port_set_in_chief_only.py' {SRC} {PS} "
        "--conf tony.chief.instances=1",
        SUCCEEDED,
    ),
    "standalone": Case(
        f"{PYTHON} --executes exit_0.py {APPLICATION}.framework=standalone {ONE}", SUCCEEDED
    ),
    "standalone with two tasks": Case(
        f"{PYTHON} --executes exit_0.py {APPLICATION}.framework=standalone {ONE} "
        "--conf tony.slave.instances=1",
        *(FAILED, "tony.application.framework", SUCCEEDED),
    ),
    "late news of an end": Case(
        f"{PYTHON} --executes exit_0.py {ONE} --conf tony.ps.instances=0 "
        "--conf tony.task.heartbeat-interval-ms=100 --conf tony.task.max-missed-heartbeats=5 "
        "--container_env TEST_TASK_COMPLETION_NOTIFICATION_DELAYED=true",
        SUCCEEDED,
    ),
    "a ps is stopped with the others": Case(
        f"{VENV} {PS} --conf tony.ps.command='python sleep_30.py' "
        "--conf tony.worker.command='python check_env_and_venv.py'",
        SUCCEEDED,
    ),
    "a ps fails": Case(
        f"{VENV} {PS} --conf tony.ps.command='python exit_1.py' "
        "--conf tony.worker.command='python sleep_30.py' "
        f"{APPLICATION}.untracked.jobtypes=ps",
        FAILED,
    ),
    "a sidecar fails": Case(
        f"{VENV} {ONE} --conf tony.sidecarexecutor.instances=1 "
        "--conf tony.sidecarexecutor.command='python exit_1.py' "
        "--conf tony.worker.command='python sleep_30.py' "
        f"{APPLICATION}.sidecar.jobtypes=sidecarexecutor",
        SUCCEEDED,
    ),
    "Horovod's driver fails": Case(
        f"{HOROVOD} {ONE} --conf tony.worker.command='python sleep_30.py' "
        "--conf tony.horovod.mode.test.fast.fail=true",
        *(FAILED, "tony.horovod.mode.test.fast.fail", SUCCEEDED),
    ),
    "Horovod": Case(
        f"{HOROVOD} --executes 'python check_horovod_env.py' --conf tony.worker.instances=2 "
        "--conf tony.horovod.mode.test=true",
        SUCCEEDED,
    ),
    "Horovod's driver by hand": Case(
        f"{HOROVOD} --executes 'python check_horovod_env.py' --conf tony.worker.instances=2 "
        "--conf tony.horovod.mode.test=true --conf tony.horovod.driver.mode.debug=true "
        "--conf tony.driver.instances=1 --conf tony.driver.vcores=1 "
        f"{APPLICATION}.untracked.jobtypes=driver "
        "--conf tony.driver.command='python horovod_debug_driver.py -t -p 9999'",
        SUCCEEDED,
    ),
    "the AM starts late": Case(
        f"{VENV} --executes 'python check_env_and_venv.py' {ONE} --conf tony.am.memory=2g "
        "--conf tony.am.startup-timeout=10000",
        *(FAILED, "tony.am.startup-timeout", SUCCEEDED),
    ),
    "TensorBoard as a sidecar": Case(
        f"{VENV} --executes 'python check_tb_port_no_set_in_chief.py' {PS} "
        f"--conf tony.chief.instances=1 --conf tony.worker.instances=2 "
        f"--sidecar_tensorboard_log_dir /tmp {APPLICATION}.framework=tensorflow "
        "--container_env SIDECAR_TB_TEST=true",
        *(SUCCEEDED, "tony.application.tensorboard-log-dir", SUCCEEDED),
    ),
    "workers outlive the chief": Case(
        DEPENDENT,
        *(FAILED, "tony.application.dependency.worker.timeout.after.A", FOR_EVER),
    ),
    "workers may outlive the chief": Case(f"{DEPENDENT} {IGNORED}", SUCCEEDED),
    "workers and a ps may outlive the chief": Case(
        f"{DEPENDENT} {IGNORED} --conf tony.ps.instances=1 "
        "--conf tony.ps.command='python forever_not_exit.py'",
        SUCCEEDED,
    ),
    "workers that may outlive the chief fail": Case(
        f"{DEPENDENT} {IGNORED} --conf tony.worker.command='python sleep_10_and_exit_1.py' "
        "--conf tony.evaluator.instances=1 --conf tony.evaluator.command='python sleep_30.py' "
        f"{APPLICATION}.stop-on-failure-jobtypes=worker",
        FAILED,
    ),
}


def imported(folder: Path, line: str) -> tuple[dict[str, Any], str]:
    file, output = folder / "tony.xml", folder / "job.yaml"
    file.write_text("<configuration/>")
    assert run(["import", str(file), *shlex.split(line), "-o", str(output)]) == ExitCode.OK
    text = output.read_text()
    head = [row for row in text.splitlines() if row.startswith("#")]
    spec = yaml.safe_load(text)
    assert isinstance(spec, dict)
    return spec, "\n".join(head)


def program(command: str) -> tuple[int, int] | None:
    (name,) = [word for word in shlex.split(command) if word in PROGRAMS]
    return PROGRAMS[name]


def end_of(job: JobSpec) -> str:
    """How the gang ends by the completion rules of its roles, when its programs do what they do."""
    play = Play(job).to_acquiring().grant_all(("n1",) * 16)
    play.register_all()
    roles = {role.name: role for role in job.roles}
    running: dict[AskId, tuple[float, int]] = {}
    seen = set[AskId]()
    now_s, done = 0, 0
    while play.gang.verdict is None:
        actions = play.all[done:]
        done = len(play.all)
        for launch in of(actions, LaunchGang):
            for member in play.gang.members:
                if member.ask not in {*launch.waiting, *seen}:
                    seen.add(member.ask)
                    does = program(roles[member.target.role].command[-1])
                    running[member.ask] = (now_s + does[0], does[1]) if does else (float("inf"), 0)
                    play.started(member.ask)
        for stop in of(actions, StopTask):
            if running.pop(stop.ask, None):
                play.exited(stop.ask, stopped())
        if len(play.all) > done or play.gang.verdict is not None:
            continue
        ask = min(running, key=lambda one: running[one][0])
        at_s, code = running.pop(ask)
        if at_s == float("inf"):
            return FOR_EVER
        now_s = int(at_s)
        if code:
            play.exited(ask, failing(code))
        else:
            play.ok(ask)
    assert len(of(play.all, Finish)) == 1
    return play.verdict.kind.name


@pytest.mark.parametrize("name", CASES)
def test_it_ends_as_in_tony_or_the_head_says_why_not(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    spec, head = imported(tmp_path, case.line)
    job = parse_spec_dict(spec, check_paths=False, environ={})
    assert end_of(job) == (case.ours or case.tony)
    assert not case.told or f"#   {case.told}:" in head
    assert case.told or case.ours in ("", case.tony)


def test_too_large_a_gang_is_given_up_as_in_tony(tmp_path: Path) -> None:
    line = f"{VENV} --executes 'python check_env_and_venv.py' --conf tony.worker.instances=10000 "
    line += "--conf tony.worker.memory=2g --conf tony.container.allocation.timeout=1000"
    assert imported(tmp_path, line)[0]["gang"] == {"hold_timeout": "1s"}


def test_the_final_configuration(tmp_path: Path) -> None:
    """TonY's options of one key are set, those of several values are added."""
    line = "--executes ls --shell_env TEST1=test --container_env TEST2=test "
    line += "--conf tony.worker.command=cat --conf tony.containers.resources=common.zip "
    line += "--conf tony.containers.resources=test.zip"
    spec, _ = imported(tmp_path, line)
    assert spec["command"] == "ls"
    assert spec["env"] == {"TEST1": "test", "TEST2": "test"}
    assert [Path(file["source"]).name for file in spec["files"]] == ["common.zip", "test.zip"]
