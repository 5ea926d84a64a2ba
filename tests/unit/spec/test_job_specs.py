"""Good specs and the jobs they make."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from yarnam.core.model.job_spec import (
    AccessSpec,
    After,
    AmSpec,
    BlacklistSpec,
    CheckpointSpec,
    Completion,
    CompletionRule,
    DataInput,
    ElasticSpec,
    EnvironmentSpec,
    GangSpec,
    JobSpec,
    MoreMemorySpec,
    NotebookSpec,
    PackOrSpread,
    PlacementSpec,
    RetrySpec,
    RoleSpec,
    ScheduledSize,
    ShippedFile,
    StartCondition,
    StoringSpec,
    TopologyConstraint,
    acl_text,
    users_and_groups,
)
from yarnam.core.model.resources import Resources
from yarnam.errors import BadSpec
from yarnam.spec import parse_spec_dict, parse_spec_file, parse_spec_text

BASE: dict[str, Any] = {
    "version": 1,
    "name": "digits",
    "queue": "root.research",
    "command": ["python3", "train.py"],
}


def job(**more: Any) -> JobSpec:
    environ = more.pop("environ", {})
    base_dir = more.pop("base_dir", "/nowhere")
    return parse_spec_dict({**BASE, **more}, environ=environ, base_dir=base_dir, user="ada")


def test_what_is_waited_for_and_what_must_succeed() -> None:
    def completion(given: Any) -> Completion:
        return job(roles={"worker": {"tasks": 3, "completion": given}}).roles[0].completion

    assert completion("chief") == Completion(CompletionRule.CHIEF)
    assert completion({"wait": "all", "succeed": "chief"}) == Completion(
        CompletionRule.CHIEF, 0, True
    )
    assert completion({"at_least": 2}) == Completion(CompletionRule.AT_LEAST, 2)
    assert completion({"wait": "all", "at_least": 2}) == Completion(
        CompletionRule.AT_LEAST, 2, True
    )
    roles = {"prepare": {}, "worker": {"after": {"role": "prepare", "until": "ended"}}}
    prepared = job(roles=roles)
    assert prepared.roles[1].after == (After("prepare", StartCondition.ENDED),)
    assert prepared.preparing_roles == {"prepare"}


def test_the_smallest_job_gets_every_default_of_the_model() -> None:
    assert job(gpus=4) == JobSpec(
        name="digits",
        queue="root.research",
        user="ada",
        framework="command",
        roles=(RoleSpec("worker", 1, Resources(65536, 16, 4), ("python3", "train.py"), 4),),
        flexible_shape=True,
    )


def test_a_queue_may_be_a_mapping() -> None:
    exact = job(gpus=4, queue={"name": "root.dl", "placement": "exact"})
    assert (exact.queue, exact.exact_queue) == ("root.dl", True)
    assert not job(gpus=4, queue={"name": "root.dl"}).exact_queue


def test_an_elastic_number_of_tasks() -> None:
    made = job(
        roles={"worker": {"tasks": {"min": 2, "max": 6}, "gpus": 2}},
        elastic={
            "patience": "2s", "grow": False, "grow_interval": "3s", "min_run": "4s",
            "shrink_after": "5s", "checkpoint_grace": "6s",
        },
    )  # fmt: skip
    [worker] = made.roles
    assert (worker.min_tasks, worker.tasks, worker.resources.gpus) == (2, 6, 2)
    assert made.elastic == ElasticSpec(False, 2.0, False, 3.0, 4.0, 5.0, 6.0)
    assert not made.flexible_shape
    assert made.elastic_role == worker
    fixed = made.at_size(3)
    assert (fixed.tasks, fixed.gpus, fixed.elastic_role) == (3, 6, None)


def test_a_schedule_of_sizes_is_in_the_unit_of_the_range() -> None:
    made = job(
        gpus={"min": 4, "max": 16}, checkpoint={"directory": "/a/b"},
        elastic={"schedule": [{"step": 0, "size": 4}, {"step": 900, "size": 12}]},
    )  # fmt: skip
    assert made.elastic.schedule == (ScheduledSize(4, step=0), ScheduledSize(12, step=900))
    assert [made.scheduled_tasks(number) for number in (0, 1, 2, 3)] == [None, 1, 3, None]


@pytest.mark.parametrize(
    ("low", "high", "step"), [(4, 16, 4), (6, 16, 2), (3, 16, 1), (1, 8, 1), (8, 24, 8)]
)
def test_an_elastic_number_of_gpus_moves_in_steps_that_divide_both(
    low: int, high: int, step: int
) -> None:
    made = job(gpus={"min": low, "max": high})
    [worker] = made.roles
    assert made.elastic.counts_gpus
    assert made.flexible_shape
    assert worker.min_tasks is not None
    assert worker.min_tasks * step == low
    assert worker.tasks * step == high
    assert worker.resources.gpus == worker.processes_per_task == step


def test_a_gang_that_goes_on_needs_no_checkpoint_to_grow() -> None:
    roles = {"worker": {"tasks": {"min": 2, "max": 6}}}
    schedule = [{"step": 0, "size": 4}]
    elastic = {"restart": False, "schedule": schedule}
    in_place = job(framework="torchrun", roles=roles, elastic=elastic)
    assert in_place.resizes_in_place
    assert in_place.elastic.grow
    assert not in_place.as_pre_run().resizes_in_place
    kept = job(framework="torchrun", roles=roles)
    assert not kept.resizes_in_place
    assert not kept.elastic.grow


def test_a_gang_grows_by_itself_only_where_it_can_go_on_from_a_checkpoint() -> None:
    size = {"min": 2, "max": 4}
    assert not job(gpus=size).elastic.grow
    assert job(gpus=size, checkpoint={"directory": "/a/b"}).elastic.grow
    assert job(gpus=size, elastic={"grow": True}).elastic.grow
    no = job(gpus=size, checkpoint={"directory": "/a/b"}, elastic={"grow": False})
    assert not no.elastic.grow


FULL = """\
version: 1
name: full
queue: root.a.b
framework: tensorflow
command: [python3, code/train.py]
code: src
files:
  - settings.json
  - {source: tool, executable: true, name: t}
  - {source: hdfs:///models/base.tar.gz, archive: true}
environment: {archive: hdfs:///envs/e.tar.gz, python: bin/python3}
env: {A: 1, B: x, C: {from: client}, S: s3cret}
secret_env: [S]
vcores_per_gpu: 2
memory_per_gpu: 4GiB
processes: per-task
roles:
  chief: {tasks: 1, gpus: 2, processes: per-gpu}
  worker:
    {tasks: 3, gpus: 4, gpu_model: V100, processes_per_task: 2, memory: 8g, vcores: 3, ports: [ui]}
  ps: {tasks: 2, command: "exec ps $A", env: {P: q}}
placement:
  locality: {node: unconstrained, rack: required}
  strategy: spread
  exclude_nodes: [n1, n2, n1]
  max_nodes: 6
  include_nodes: [n3, n4]
  gpu_model: A100 80GB
  anti_affinity: [ps, [worker, ps, chief]]
  near_data: false
  cells: true
gang:
  hold_timeout: 1min
  localize_timeout: 90s
  ask_timeout: 2min
  launch_timeout: 3min
  attempts: 7
  backoff: {base: 1s, cap: 1min}
  relax_after_attempts: 2
  look_before_ask: false
  wait_timeout: 1h
  recovery_timeout: 45s
  priority: -3
  ticket: false
data:
  inputs: [hdfs:///data/Train-Set.npz, {path: /data/b, name: validation, mode: stream}]
  outputs: {path: hdfs:///out, replace: true, on_failure: keep, timeout: 20min}
checkpoint:
  directory: hdfs:///ckpt
  keep: 5
  keep_every: 1000
  best: {metric: accuracy, mode: max, keep: 2}
  every: 50
  async: true
  restore: 700
  spool: {limit: 10min, max_size: 20GiB}
retry:
  max_restarts: 1
  on_user_failure: 4
  more_memory: {factor: 2, max: 300GiB}
  blacklist: {strikes: 3, expiry: 30min, cool_down: 10min, max_share: 0.5}
ports: [debug]
am:
  {memory: 2GiB, vcores: 2, attempts: 3, attempts_interval: 1d,
   agent_silence: 5s, orphan_timeout: 9s, absence: 10min, stop_grace: 0s}
duration: 1h30m
tags: [team-a, "x=1"]
"""


def test_every_key(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()
    (tmp_path / "settings.json").write_text("{}")
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    spec = tmp_path / "job.yaml"
    spec.write_text(FULL)
    line = ("/bin/bash", "-c", "exec ps $A")
    train = ("python3", "code/train.py")
    assert parse_spec_file(spec, user="ada", environ={"C": "mine"}) == JobSpec(
        name="full",
        queue="root.a.b",
        user="ada",
        framework="tensorflow",
        roles=(
            RoleSpec("chief", 1, Resources(8192, 4, 2), train, 2, (), ("debug",)),
            RoleSpec("worker", 3, Resources(8192, 3, 4), train, 2, (), ("debug", "ui"), "V100"),
            RoleSpec("ps", 2, Resources(2048, 1, 0), line, 1, (("P", "q"),), ("debug",)),
        ),
        environment=EnvironmentSpec("bin/python3", "hdfs:///envs/e.tar.gz"),
        env=(("A", "1"), ("B", "x"), ("C", "mine"), ("S", "s3cret")),
        files=(
            ShippedFile("code", str(tmp_path / "src")),
            ShippedFile("settings.json", str(tmp_path / "settings.json")),
            ShippedFile("t", str(tmp_path / "tool"), executable=True),
            ShippedFile("base", "hdfs:///models/base.tar.gz", is_archive=True),
        ),
        inputs=(
            DataInput("train_set", "hdfs:///data/Train-Set.npz"),
            DataInput("validation", "/data/b"),
        ),
        output="hdfs:///out",
        storing=StoringSpec(replace=True, keep_on_failure=True, timeout_s=1200.0),
        checkpoint=CheckpointSpec(
            "hdfs:///ckpt", 5, True, 50, 1000, "accuracy", "max", 2, "700", 600.0, 20 * 1024
        ),
        placement=PlacementSpec(
            TopologyConstraint.UNCONSTRAINED,
            TopologyConstraint.REQUIRED,
            PackOrSpread.SPREAD,
            ("n1", "n2"),
            6,
            ("n3", "n4"),
            "A100 80GB",
            (("ps", "ps"), ("chief", "ps"), ("chief", "worker"), ("ps", "worker")),
            near_data=False,
            cells=True,
        ),
        gang=GangSpec(60, 90, 120, 180, 7, 1, 60, 2, False, 3600, 45, -3, False),
        retry=RetrySpec(
            1, 4, (), BlacklistSpec(3, 1800, 600, 0.5), MoreMemorySpec(2.0, 300 * 1024)
        ),
        am=AmSpec(Resources(2048, 2, 0), 3, 86400, 5, 9, 600, 0),
        flexible_shape=False,
        duration_s=5400.0,
        tags=("team-a", "x=1"),
        secret_env=("C", "S"),
    )


def test_every_byte_of_an_argument_arrives() -> None:
    """Through the YAML and through the kernel, compared with what was written."""
    arguments = ["a b", "$HOME", "${x}", "`id`", "'\"\\", "\n\t ", "ü€𝄞", "*", "-", "#", "\x7f", ""]
    written = ", ".join(
        "'" + text.replace("'", "''") + "'" for text in arguments if "\n" not in text
    )
    text = f"""\
version: 1
name: x
queue: root.q
gpus: 1
command: [printf, '%s\\0', {written}, "\\n\\t ", 0.10, 1e3, 010, 1:30]
"""
    if "\x7f" in text:  # the one that YAML wants escaped
        text = text.replace("'\x7f'", '"\\x7f"')
    command = parse_spec_text(text).roles[0].command
    wanted = [text for text in arguments if "\n" not in text] + [
        "\n\t ",
        "0.10",
        "1e3",
        "010",
        "1:30",
    ]
    assert list(command[2:]) == wanted
    seen = subprocess.run(command, check=True, capture_output=True).stdout
    assert seen == b"".join(text.encode() + b"\0" for text in wanted)


def test_a_shell_line_is_passed_on_unchanged() -> None:
    text = """\
version: 1
name: x
queue: root.q
gpus: 1
command: |
  echo "$YARNAM_RANK" | tr 0-9 a-j
  echo '${not} replaced'
"""
    command = parse_spec_text(text).roles[0].command
    assert command == (
        "/bin/bash",
        "-c",
        "echo \"$YARNAM_RANK\" | tr 0-9 a-j\necho '${not} replaced'\n",
    )
    seen = subprocess.run(
        command, check=True, capture_output=True, env={"YARNAM_RANK": "3", **os.environ}
    )
    assert seen.stdout == b"d\n${not} replaced\n"


@pytest.mark.parametrize(
    ("framework", "role", "processes"),
    [
        ("command", {"gpus": 4}, 4),
        ("jax", {"gpus": 4}, 4),
        ("pytorch", {"gpus": 4}, 4),
        ("tensorflow", {"gpus": 4}, 1),
        ("tensorflow", {"gpus": 4, "processes": "per-gpu"}, 4),
        ("jax", {"gpus": 4, "processes": "per-task"}, 1),
        ("jax", {"gpus": 4, "processes_per_task": 2}, 2),
        ("jax", {"gpus": 0}, 1),
        ("jax", {"gpus": 0, "processes_per_task": 3}, 3),
        ("jax", {"gpus": 0, "processes": "per-task"}, 1),
    ],
)
def test_processes_of_a_task(framework: str, role: dict[str, Any], processes: int) -> None:
    made = job(framework=framework, roles={"worker": role})
    assert made.roles[0].processes_per_task == processes
    assert not made.flexible_shape


@pytest.mark.parametrize("framework", ["command", "jax", "pytorch", "tensorflow"])
def test_gpus_alone_leave_the_planner_every_shape(framework: str) -> None:
    from yarnam.core.placement.gang_shape import shapes_of

    made = job(framework=framework, gpus=8)
    shapes = [(shape[0].count, shape[0].resources.gpus) for shape in shapes_of(made)]
    assert shapes == [(1, 8), (2, 4), (4, 2), (8, 1)]
    assert all(group.processes == group.resources.gpus for (group,) in shapes_of(made))
    assert {group.resources.memory_mib // group.resources.gpus for (group,) in shapes_of(made)} == {
        16384
    }


def test_many_gpus_without_roles_are_no_task_of_their_own() -> None:
    assert job(gpus=4096).gpus == 4096


def test_defaults_give_way_to_a_short_wait_and_one_sided_backoffs() -> None:
    gang = job(gpus=1, gang={"wait_timeout": "1min"}).gang
    assert (gang.hold_timeout_s, gang.ask_timeout_s, gang.wait_timeout_s) == (60, 60, 60)
    assert gang.localize_timeout_s == 60
    low = job(gpus=1, gang={"backoff": {"cap": "1s"}}).gang
    assert (low.backoff_base_s, low.backoff_cap_s) == (1, 1)
    high = job(gpus=1, gang={"backoff": {"base": "10min"}}).gang
    assert (high.backoff_base_s, high.backoff_cap_s) == (600, 600)


def test_variables_from_the_submitting_environment_are_secret() -> None:
    made = job(
        roles={"a": {"env": {"TOKEN": {"from": "client"}}}, "b": {}}, environ={"TOKEN": "t0p"}
    )
    assert made.roles[0].env == (("TOKEN", "t0p"),)
    assert made.secret_env == ("TOKEN",)


def test_an_executable_file_stays_executable(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    (tmp_path / "data").write_text("x")
    plain = {"source": "tool", "name": "t2", "executable": False}
    made = job(gpus=1, files=["tool", "data", plain], base_dir=tmp_path)
    assert [file.executable for file in made.files] == [True, False, False]


def test_paths_start_at_the_spec_files_directory(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "data.txt").write_text("x")
    spec = tmp_path / "specs" / "job.yaml"
    spec.write_text(
        "version: 1\nname: x\nqueue: root.q\ncommand: ls\ngpus: 1\nfiles: [../data.txt]\n"
    )
    monkeypatch.chdir(tmp_path)
    for path in (spec, Path("specs/job.yaml"), "specs/job.yaml"):
        (file,) = parse_spec_file(path).files
        assert (file.name, file.source) == ("data.txt", str(tmp_path / "data.txt"))


def test_paths_can_be_left_unchecked() -> None:
    made = parse_spec_dict({**BASE, "gpus": 1, "files": ["a"]}, base_dir="/x", check_paths=False)
    assert made.files == (ShippedFile("a", "/x/a"),)


def test_unreadable_and_special_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadSpec, match="neither a file nor a directory"):
        job(gpus=1, files=["pipe"], base_dir=tmp_path)
    (tmp_path / "e.tar.gz").mkdir()
    with pytest.raises(BadSpec, match="is a directory, not an archive"):
        job(gpus=1, environment={"archive": "e.tar.gz"}, base_dir=tmp_path)
    (tmp_path / "code.py").write_text("")
    with pytest.raises(BadSpec, match="must be a directory"):
        job(gpus=1, code="code.py", base_dir=tmp_path)


def test_anchors_serve_roles_of_one_kind() -> None:
    text = """\
version: 1
name: x
queue: root.q
command: ls
roles:
  a: &same {tasks: 2, gpus: 1}
  b: {<<: *same, tasks: 3}
"""
    made = parse_spec_text(text)
    assert [(role.name, role.tasks, role.resources.gpus) for role in made.roles] == [
        ("a", 2, 1),
        ("b", 3, 1),
    ]


def test_a_job_crosses_the_wire() -> None:
    from yarnam.wire.codec import decode, encode

    made = job(gpus=4, env={"A": "ü"}, gang={"hold_timeout": "1min"})
    assert decode(encode(made), JobSpec) == made


def test_who_else_may_see_and_end_the_job() -> None:
    job = parse_spec_dict(
        {
            "version": 1, "name": "n", "queue": "root.a", "command": "true", "gpus": 1,
            "acls": {"view": ["ann", "group:ml"], "modify": ["*"]},
        }
    )  # fmt: skip
    assert job.acls == AccessSpec(("ann", "group:ml"), ("*",))
    assert acl_text(*users_and_groups(job.acls.view)) == "ann ml"
    assert acl_text(*users_and_groups(job.acls.modify)) == "*"
    assert acl_text(*users_and_groups(())) == " "


@pytest.mark.parametrize(
    ("more", "gpus", "memory_mib"),
    [("", 0, 2048), ("gpus: 2", 2, 32768), ("roles: {a: {gpus: 2, memory: 8GiB}}", 2, 8192)],
)
def test_a_notebook_is_one_process(more: str, gpus: int, memory_mib: int) -> None:
    text = f"version: 1\nname: nb\nqueue: root.a\nnotebook: {{idle_timeout: 30m}}\n{more}"
    job = parse_spec_text(text, user="me")
    (role,) = job.roles
    assert (role.name, role.tasks, role.processes_per_task) == ("notebook", 1, 1)
    assert (role.resources.gpus, role.resources.memory_mib) == (gpus, memory_mib)
    assert role.command == ("python3", "-m", "jupyterlab")
    assert role.ports == ("notebook",)
    assert job.notebook == NotebookSpec(idle_timeout_s=1800.0)
    assert job.checkpoint.mirror == "notebooks"
    assert not job.hang.detect
    assert not job.flexible_shape


def test_a_notebook_may_run_vs_code() -> None:
    text = "version: 1\nname: nb\nqueue: root.a\nnotebook: code-server\n"
    assert parse_spec_text(text, user="me").roles[0].command == ("code-server",)
