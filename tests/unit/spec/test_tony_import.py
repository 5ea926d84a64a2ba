"""Jobs of TonY mean here what they mean there, or the head of the spec says what differs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from yarnam.cli.shell import run
from yarnam.errors import BadSpec, ExitCode
from yarnam.spec import parse_spec_dict
from yarnam.spec.importers import tony
from yarnam.spec.importers.conversion import Conversion

KEYS = """
am: gpus memory retry-count startup-timeout vcores wait-client-signal-stop-timeout-sec
application: distributed-mode docker.enabled enable-preprocess fail-on-worker-failure-enabled
  framework hdfs-conf-path mapred-conf-path name node-label num-client-rm-connect-retries
  security.enabled sidecar.jobtypes single-node stop-on-failure-jobtypes tags timeout type
  untracked.jobtypes yarn-conf-path
container: allocation.timeout registration.timeout
containers: resources
docker: enabled
history: cache.max-entries finished finished-dir-timezone host intermediate location
  maxAppends mover-interval-ms purger-interval-ms retention-sec
horovod: driver.mode.debug mode.test mode.test.fast.fail
http: port
https: keystore.algorithm keystore.password keystore.path keystore.type port
keytab: location user
other: namenodes
portal: cache.max-entries url
ps: instances memory vcores
secret: key
task: am.jvm.opts executor.execution-timeout-ms executor.execution.error-message-max-depth
  executor.jvm.opts executor.registry-timeout-sec gpu-metrics.enabled heartbeat-interval
  heartbeat-interval-ms max-missed-heartbeats max-total-gpus max-total-instances
  metrics-interval-ms
version-info: branch checksum date url user version
worker: gpus instances memory timeout vcores
yarn: queue
"""
"""All keys of TonY's own lists of defaults (0.4.7, 0.5) and of a job that its portal shows."""

SOFT = "tony.application.fail-on-worker-failure-enabled"


def convert(
    changes: dict[str, str] | None = None, **arguments: Any
) -> tuple[dict[str, Any], dict[str, str]]:
    """The spec, which is valid, and what its head says, by key."""
    base = {"tony.containers.command": "train", "tony.application.framework": "standalone"}
    made = tony.convert({**base, **(changes or {})}, tony.Arguments(**arguments))
    return check(made), {one.key: one.why for one in made.dropped}


def check(made: Conversion) -> dict[str, Any]:
    parse_spec_dict(made.spec, check_paths=False)
    return made.spec


def instances(**roles: int) -> dict[str, str]:
    return {f"tony.{name}.instances": str(count) for name, count in roles.items()}


def xml(properties: dict[str, str], encoding: str = "utf-8") -> bytes:
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in properties.items()
    )
    head = f'<?xml version="1.0" encoding="{encoding}"?>'
    return f"{head}<configuration>{rows}</configuration>".encode(encoding)


def imported(folder: Path, properties: dict[str, str], line: str) -> dict[str, Any]:
    """The spec that the command writes."""
    file, output = folder / "tony.xml", folder / "job.yaml"
    file.write_bytes(xml(properties))
    output.unlink(missing_ok=True)
    arguments = ["import", *shlex.split(line), "-o", str(output)]
    if "conf_file" not in line:
        arguments.insert(1, str(file))
    assert run(arguments) == ExitCode.OK
    spec = yaml.safe_load(output.read_text())
    assert isinstance(spec, dict)
    return spec


# ---- keys ----------------------------------------------------------------------------------------


def test_every_key_of_tonys_own_lists_is_known() -> None:
    lines = KEYS.replace("\n  ", " ").split("\n")
    names = [
        f"tony.{group}.{key}"
        for group, _, keys in (line.partition(": ") for line in lines if line)
        for key in keys.split()
    ]
    assert len(names) == 81
    defaults = {name: "1" for name in names if not name.endswith((".memory", ".port"))}
    defaults |= {"tony.ps.memory": "2g", "tony.worker.memory": "2g", "tony.http.port": "disabled"}
    defaults |= {"tony.docker.enabled": "false", "tony.application.docker.enabled": "false"}
    defaults |= {"tony.application.framework": "standalone", "tony.worker.instances": "2"}
    defaults |= {f"tony.container.{one}.timeout": "-1" for one in ("allocation", "registration")}
    for name in ("untracked.jobtypes", "sidecar.jobtypes", "stop-on-failure-jobtypes"):
        defaults[f"tony.application.{name}"] = "ps"
    assert convert(defaults)[0]["roles"]["worker"]["tasks"] == 2


OTHERS = """
application: hadoop.classpath hadoop.location placement-spec tensorboard-log-dir
containers: allocation-tags command envs placement-spec
docker: containers.image containers.mount worker.image
task: default.jvm.opts
worker: allocation-tags command depends-on max-instances placement-spec
"""
"""Keys that TonY's code knows, and its lists of defaults leave out."""


def test_every_other_key_of_tonys_code_is_known() -> None:
    lines = [line.partition(": ") for line in OTHERS.strip().splitlines()]
    names = [f"tony.{group}.{key}" for group, _, keys in lines for key in keys.split()]
    names += ["tony.gpu-exec-path", "tony.python-exec-path"]
    values = dict.fromkeys(names, "x") | {"tony.containers.envs": "A=1"}
    convert({**instances(worker=1), **values})


def test_what_a_role_without_instances_has_is_listed() -> None:
    spec, head = convert({**instances(worker=4), "tony.ps.memory": "3g"})
    assert list(spec["roles"]) == ["worker"]
    assert head["tony.ps.memory"] == "the role has no instances"


def test_keys_that_are_not_tonys_are_listed() -> None:
    _, head = convert({**instances(worker=1), "toni.worker.memory": "3g"})
    assert head == {"toni.worker.memory": "not a key of TonY"}


# ---- command lines -------------------------------------------------------------------------------

IN_ARCHIVE = "-python_venv my-venv.zip -python_binary_path Python/bin/python -src_dir src"
IN_EXAMPLES = "--python_venv=my-venv.zip --src_dir=src --python_binary_path=venv/bin/python"
README = [
    (
        f"-executes models/mnist.py -task_params '--in /in --steps 25' {IN_ARCHIVE}",
        "python models/mnist.py --in /in --steps 25",
        {"archive": "my-venv.zip", "python": "Python/bin/python"},
    ),
    (
        f"--executes src/models/mnist.py {IN_ARCHIVE.replace('-p', '--p')} --shell_env L=/usr/lib",
        "python models/mnist.py",
        {"archive": "my-venv.zip", "python": "Python/bin/python"},
    ),
    (
        f"{IN_EXAMPLES} --executes=m.py --task_params='--steps 9'",
        "python m.py --steps 9",
        {"archive": "my-venv.zip", "python": "venv/bin/python"},
    ),
    (
        "-executes models/mnist.py -src_dir src -python_binary_path /opt/env/bin/python",
        "python models/mnist.py",
        {"python": "/opt/env/bin/python"},
    ),
]


@pytest.mark.parametrize(("line", "command", "environment"), README)
def test_the_command_lines_of_tonys_readme_run_unchanged(
    line: str,
    command: str,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    properties = {**instances(worker=4), "tony.worker.gpus": "1", "tony.ps.memory": "3g"}
    spec = imported(tmp_path, properties, line)
    assert spec["command"] == command
    assert spec["environment"] == environment
    assert spec["code"] == "src"


def test_properties_of_the_command_line_come_first(tmp_path: Path) -> None:
    properties = {**instances(worker=4, ps=1), "tony.ps.memory": "${tony.worker.memory}"}
    line = "-executes t.py -conf tony.worker.memory=5g -conf tony.ps.instances=2"
    roles = imported(tmp_path, properties, line)["roles"]
    assert (roles["ps"]["memory"], roles["ps"]["tasks"]) == ("5GiB", 2)


def test_values_are_added_where_tony_adds_them(tmp_path: Path) -> None:
    properties = {**instances(worker=1), "tony.execution.envs": "A=1"}
    line = "-executes t.py -conf tony.execution.envs=B=2 -conf tony.execution.envs=C=3"
    line += " -shell_env D=4 -shell_env 'E=5 6'"
    env = imported(tmp_path, properties, line)["env"]
    assert env == {"A": "1", "B": "2", "C": "3", "D": "4", "E": "5 6"}


def test_the_file_may_be_named_as_tonys_client_has_it(tmp_path: Path) -> None:
    line = f"-conf_file {tmp_path}/tony.xml -executes t.py"
    assert imported(tmp_path, instances(worker=3), line)["roles"]["worker"]["tasks"] == 3
    assert run(["import", "--executes", "t.py"]) == ExitCode.USAGE


COMMANDS = [
    ({"executes": "python x.py"}, "python x.py"),
    ({"executes": "-m pkg.train", "python_binary_path": "/opt/python"}, "python -m pkg.train"),
    ({"executes": "main", "python_binary_path": "python3.9"}, "python main"),
    ({"executes": "./run.sh a"}, "./run.sh a"),
    ({"executes": "bash -c 'x; y'"}, "bash -c 'x; y'"),
    ({"executes": "x.py", "python_binary_path": "Python/bin/python"}, "Python/bin/python x.py"),
]


@pytest.mark.parametrize(("arguments", "command"), COMMANDS)
def test_what_is_executed(arguments: dict[str, str], command: str) -> None:
    assert convert(instances(worker=1), src_dir="s", **arguments)[0]["command"] == command


ARCHIVES = [
    ("", {}, True),
    ("/opt/bin/python", {"python": "/opt/bin/python"}, True),
    ("Python/bin/python", {"python": "Python/bin/python", "archive": "e.zip"}, False),
    ("python", {"python": "./python", "archive": "e.zip"}, False),
]


@pytest.mark.parametrize(("python", "environment", "is_file"), ARCHIVES)
def test_the_clients_archive_is_unpacked_as_in_tony(
    python: str, environment: dict[str, str], *, is_file: bool
) -> None:
    """Only where it has the interpreter is it the job's environment; it is always ``venv``."""
    spec, head = convert(instances(worker=1), python_venv="e.zip", python_binary_path=python)
    assert spec.get("environment", {}) == environment
    assert spec.get("files", []) == [
        {"source": "e.zip", "name": "venv", "archive": True} for _ in range(is_file)
    ]
    assert not head


def test_an_empty_program_is_none() -> None:
    with pytest.raises(BadSpec, match="does not say what worker runs"):
        tony.convert(instances(worker=1), tony.Arguments(executes="  "))


def test_paths_are_relative_to_where_the_command_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "specs").mkdir()
    resources = "data/a.txt, /abs/b.txt, hdfs:///c.txt, ../d"
    Path("tony.xml").write_bytes(xml({**instances(worker=1), "tony.worker.resources": resources}))
    line = "import tony.xml -executes x.py -src_dir src -python_venv e.zip -o specs/job.yaml"
    line += " -python_binary_path bin/python"
    assert run(shlex.split(line)) == ExitCode.OK
    spec = yaml.safe_load(Path("specs/job.yaml").read_text())
    assert (spec["code"], spec["environment"]["archive"]) == ("../src", "../e.zip")
    sources = [file["source"] for file in spec["files"]]
    assert sources == ["../data/a.txt", "/abs/b.txt", "hdfs:///c.txt", "../../d"]


# ---- roles ---------------------------------------------------------------------------------------

ALL_AND_CHIEF = {"wait": "all", "succeed": "chief"}


def rules(changes: dict[str, str], *names: str) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    spec, head = convert(changes)
    keys = ("service", "optional", "completion", "after")
    roles = {
        name: {key: role[key] for key in keys if key in role}
        for name, role in spec["roles"].items()
    }
    return {name: roles[name] for name in names or roles}, head


def test_all_workers_are_waited_for_and_the_first_decides() -> None:
    assert rules(instances(worker=2))[0] == {"worker": {"completion": ALL_AND_CHIEF}}
    assert rules(instances(worker=1))[0] == {"worker": {}}
    assert rules({**instances(worker=2), SOFT: "true"})[0] == {"worker": {}}
    roles, _ = rules(instances(chief=1, worker=2))
    assert roles == {"chief": {}, "worker": {"completion": ALL_AND_CHIEF}}


def test_tonys_own_defaults_hold() -> None:
    roles, _ = rules(instances(worker=2, tensorboard=1, ps=1))
    assert roles["tensorboard"] == {"service": True, "optional": True}
    assert roles["ps"] == {"service": True}
    untracked = {"tony.application.untracked.jobtypes": "driver"}
    roles, _ = rules({**instances(worker=1, ps=1, driver=1), **untracked})
    assert roles["ps"] == {"service": False}
    assert roles["driver"] == {"service": True}


def test_without_a_chief_one_task_must_succeed() -> None:
    roles, head = rules(instances(head=1, slave=3))
    assert roles == {"head": {}, "slave": {"completion": {"wait": "all", "succeed": "any"}}}
    assert head[SOFT].endswith("in TonY one task of any role")


def test_a_stage_starts_when_the_one_before_has_ended() -> None:
    stages = {"tony.application.prepare-stage": "db", "tony.application.training-stage": "worker"}
    roles, head = rules({**instances(db=1, worker=2), **stages})
    assert roles["worker"]["after"] == {"role": "db", "until": "ended"}
    assert "held meanwhile" in head["tony.application.training-stage"]
    depends = {"tony.worker.depends-on": "db"}
    assert rules({**instances(db=1, worker=2), **depends})[0]["worker"]["after"]["role"] == "db"


@pytest.mark.parametrize("stage", ["prepare-stage", "training-stage"])
def test_one_stage_leaves_the_other_roles_to_the_other(stage: str) -> None:
    named = {"prepare-stage": "db", "training-stage": "worker"}[stage]
    roles, _ = rules({**instances(db=1, worker=2), f"tony.application.{stage}": named})
    assert roles["worker"]["after"] == {"role": "db", "until": "ended"}
    assert "after" not in roles["db"]


DEPENDENCY = "tony.application.dependency.worker.timeout.after.A"


def test_roles_that_must_end_soon_after_others() -> None:
    base = {**instances(chief=1, worker=2), "tony.application.group.A": "chief", DEPENDENCY: "10"}
    roles, head = rules({**base, f"{DEPENDENCY}.ignored": "true"})
    assert roles["worker"] == {"completion": "chief"}
    assert "stopped when the chief has ended" in head[DEPENDENCY]
    roles, head = rules(base)
    assert "TonY fails the job where worker still runs 10 s after" in head[DEPENDENCY]
    evaluator = DEPENDENCY.replace("worker", "evaluator")
    base = {**instances(worker=1, evaluator=1), "tony.application.group.A": "worker"}
    roles, _ = rules({**base, evaluator: "10", f"{evaluator}.ignored": "true"})
    assert roles["evaluator"] == {"service": True, "optional": True}


def test_dependents_that_stop_the_job_on_failure_still_do() -> None:
    strict = {
        "tony.application.stop-on-failure-jobtypes": "worker",
        f"{DEPENDENCY}.ignored": "true",
    }
    base = {**instances(chief=1, worker=2), "tony.application.group.A": "chief", DEPENDENCY: "10"}
    assert rules({**base, **strict})[0]["worker"] == {"service": True}


def test_a_job_without_roles_is_one_worker() -> None:
    given = {"tony.am.memory": "3g", "tony.am.gpus": "1", "tony.worker.memory": "9g"}
    given |= {"tony.containers.resources": "a", "tony.am.retry-count": "2"}
    spec, head = convert({**given, "tony.am.command": "main"})
    worker = {"tasks": 1, "gpus": 1, "memory": "3GiB", "vcores": 1, "processes": "per-task"}
    assert spec["roles"] == {"worker": {**worker, "command": "main"}}
    assert spec["files"] == [{"source": "a"}]
    assert "retry" not in spec
    assert "ApplicationMaster" in head["tony.worker.instances"]
    assert head["tony.worker.memory"] == "the role has no instances"


def test_what_horovods_own_rendezvous_replaces_is_left_out() -> None:
    given = {"tony.application.framework": "horovod", "tony.horovod.driver.mode.debug": "true"}
    given["tony.driver.command"] = "python driver.py"
    spec, head = convert({**instances(worker=2, driver=1), **given})
    assert list(spec["roles"]) == ["worker"]
    assert "rendezvous" in head["tony.driver.instances"]
    del given["tony.horovod.driver.mode.debug"]
    assert "driver" in convert({**instances(worker=2, driver=1), **given})[0]["roles"]


@pytest.mark.parametrize(
    ("framework", "roles"),
    [
        ("horovod", {"worker": 2, "chief": 1}),
        ("tensorflow", {"chief": 2, "worker": 1}),
        ("tensorflow", {"evaluator": 1}),
    ],
)
def test_roles_that_the_framework_does_not_know_are_told(
    framework: str, roles: dict[str, int]
) -> None:
    key = "tony.application.framework"
    spec, head = convert({**instances(**roles), key: framework})
    assert spec["framework"] == "command"
    assert framework in head[key]


def test_standalone_jobs_have_one_task_in_tony() -> None:
    key = "tony.application.framework"
    assert key in convert(instances(worker=2))[1]
    assert key not in convert(instances(worker=1))[1]


def test_variables_of_tonys_own_tests_are_listed() -> None:
    _, head = convert(instances(worker=1), container_env=("TEST_AM_CRASH=true", "TEST_DIR=x"))
    assert head["tony.containers.envs"].startswith("TEST_AM_CRASH: of TonY's own tests")


def test_roles_that_tensorflow_does_not_know_run_without_its_variables() -> None:
    key = "tony.application.framework"
    for given in ({}, {key: "tensorflow"}):
        made = tony.convert(
            {**instances(head=1, slave=2), "tony.containers.command": "train", **given}
        )
        assert check(made)["framework"] == "command"
        assert key in {one.key for one in made.dropped}
    beside = {**instances(worker=2, tensorboard=1), key: "tensorflow"}
    assert convert(beside)[0]["framework"] == "tensorflow"


# ---- the rest ------------------------------------------------------------------------------------


def test_a_retry_count_of_zero_is_one() -> None:
    retry = convert({**instances(worker=1), "tony.am.retry-count": "0"})[0]["retry"]
    assert retry == {"max_restarts": 0, "on_user_failure": 0}
    assert "retry" not in convert(instances(worker=1))[0]


def test_variables_of_the_execution_come_last() -> None:
    given = {"tony.containers.envs": "A=1,L=$HOME/x", "tony.execution.envs": "A=2"}
    spec, head = convert({**instances(worker=1), **given})
    assert spec["env"] == {"A": "2", "L": "$HOME/x"}
    assert head["tony.containers.envs"].startswith("L: $ is not expanded")


def test_files() -> None:
    given = {
        "tony.containers.resources": "a.zip#ARCHIVE,b::c,x#y::z",
        "tony.worker.resources": "b::c",
    }
    assert convert({**instances(worker=1), **given})[0]["files"] == [
        {"source": "a.zip", "archive": True},
        {"source": "b", "name": "c"},
        {"source": "x#y", "name": "z"},
    ]
    with pytest.raises(BadSpec, match=r"worker\.resources and tony\.containers\.resources name"):
        convert({**instances(worker=1), **given, "tony.worker.resources": "d::c"})
    with pytest.raises(BadSpec, match="is not a path::name#archive"):
        convert({**instances(worker=1), "tony.worker.resources": "a::b::c"})


def test_container_images() -> None:
    given = {
        "tony.docker.enabled": "true",
        "tony.docker.containers.image": "img",
        "tony.docker.containers.mount": "/data:/data:ro",
    }
    spec, _ = convert({**instances(worker=1), **given}, python_binary_path="/opt/bin/python")
    assert spec["environment"] == {
        "python": "/opt/bin/python",
        "docker": {"name": "img", "mounts": ["/data:/data:ro"]},
    }
    with pytest.raises(BadSpec, match="one image is for all roles"):
        convert({**instances(worker=1, chief=1), **given, "tony.docker.worker.image": "other"})
    off = {**given, "tony.docker.enabled": "false"}
    assert "environment" not in convert({**instances(worker=1), **off})[0]


def test_tags_are_as_yarn_stores_them() -> None:
    given = {"tony.application.tags": "Prod, b,b," + ",".join(f"t{i}" for i in range(9))}
    spec, head = convert({**instances(worker=1), **given})
    assert spec["tags"] == ["prod", "b", "t0", "t1", "t2", "t3", "t4"]
    assert "tony.application.tags" in head


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_every_encoding_that_the_file_declares_is_read(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "tony.xml"
    declared = encoding.removesuffix("-sig")
    text = xml({**instances(worker=1), "tony.containers.command": "train"}).decode()
    file.write_bytes(text.replace('"utf-8"', f'"{declared}"').encode(encoding))
    assert run(["import", str(file), "-o", str(tmp_path / "job.yaml")]) == ExitCode.OK


def test_deep_xml_is_an_error_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tony.xml"
    file.write_text("<a>" * 5_000 + "</a>" * 5_000)
    assert run(["import", str(file)]) == ExitCode.BAD_SPEC


HOSTILE = ("\r", "\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\n", "\x1b")
XML_CHARACTERS = ("\r", "\x85", "\u2028", "\u2029", "\n")


@pytest.mark.parametrize("char", HOSTILE)
def test_nothing_in_a_foreign_file_puts_a_key_into_the_spec(char: str, tmp_path: Path) -> None:
    """Names of files and of keys stand in comments of the spec: none of them ends its line."""
    inject = f"a{char}env: {{LD_PRELOAD: /tmp/x.so}}{char}#"
    role = {"instances": 1, "dockerImage": "img", "commands": ["train"]}
    foreign = {
        "protocolVersion": 2,
        "name": "n",
        "type": "job",
        "prerequisites": [{"type": "dockerimage", "name": "img", "uri": inject}],
        "taskRoles": {
            "worker": {**role, "resourcePerInstance": {"cpu": 1, "memoryMB": 1024, "gpu": 0}}
        },
        "extras": {"hivedScheduler": {"taskRoles": {"worker": {"pinnedCellId": inject}}}},
    }
    escaped = inject.replace(char, f"&#{ord(char)};") if char in XML_CHARACTERS else "a"
    rows = {f"tony.history.{escaped}": "1", **instances(worker=1)}
    jobs = {
        f"tony{inject.replace('/', '')}.xml": xml({**rows, "tony.containers.command": "train"}),
        f"job{inject.replace('/', '')}.yaml": yaml.safe_dump(foreign).encode(),
    }
    for number, (name, content) in enumerate(jobs.items()):
        (tmp_path / name).write_bytes(content)
        output = tmp_path / f"{number}.yaml"
        assert run(["import", str(tmp_path / name), "-o", str(output)]) == ExitCode.OK
        spec = yaml.safe_load(output.read_bytes())
        assert "env" not in spec
        assert not set(output.read_text()) & set(HOSTILE) - {"\n"}
