"""What the commands of an OpenPAI job do there, they do in the converted spec."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from yarnam.errors import BadSpec
from yarnam.spec import parse_spec_dict
from yarnam.spec.importers import openpai
from yarnam.spec.importers.conversion import Conversion


def converted(*commands: str, roles: dict[str, Any] | None = None, **keys: Any) -> Conversion:
    """A job with these commands in its role ``worker``, and with further keys."""
    worker = {
        "instances": 2,
        "dockerImage": "img",
        "resourcePerInstance": {"cpu": 1, "memoryMB": 1024, "gpu": 1},
        "commands": list(commands),
    }
    job = {
        "protocolVersion": 2,
        "name": "a",
        "type": "job",
        "taskRoles": {"worker": {**worker, **keys.pop("worker", {})}, **(roles or {})},
        **keys,
    }
    made = openpai.convert(job, "job.yaml")
    parse_spec_dict(made.spec, check_paths=False)
    return made


def output(made: Conversion, **env: str) -> str:
    """What the role ``worker`` prints."""
    argv = ["/bin/bash", "-c", made.spec["roles"]["worker"]["command"]]
    environment = {"PATH": "/usr/bin:/bin", **env}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    assert done.stderr == ""
    return done.stdout


def head(made: Conversion) -> str:
    return "\n".join(f"{one.key}: {one.why}" for one in made.dropped)


@pytest.mark.parametrize(
    ("commands", "printed"),
    [
        (["# what is needed", "echo installed", "echo trained"], "installed\ntrained\n"),
        (["(sleep 0.1; echo one) &", "wait", "echo two"], "one\ntwo\n"),
        (["cd /tmp;", "pwd"], "/tmp\n"),
        (["for i in 1 2; do", "echo $i", "done"], "1\n2\n"),
        (["false", "echo after"], "after\n"),
        (["cat <<END\na text\nEND", "echo after"], "a text\nafter\n"),
        # As before.
        (["echo one", "echo two"], "one\ntwo\n"),
        (["  echo one && echo two  "], "one\ntwo\n"),
        (["set -e", "x=3", "echo $x"], "3\n"),
    ],
)
def test_commands_are_the_lines_of_one_script(commands: list[str], printed: str) -> None:
    assert output(converted(*commands)) == printed


def test_the_default_deployment_is_run_too() -> None:
    parts = {"preCommands": ["echo before"], "postCommands": ["echo after"]}
    deployments = [{"name": "prod", "taskRoles": {"worker": parts}}]
    job: dict[str, Any] = {"deployments": deployments, "defaults": {"deployment": "prod"}}
    assert output(converted("echo now", **job)) == "before\nnow\nafter\n"
    assert output(converted("echo now", deployments=deployments)) == "now\n"


PORTS = {"resourcePerInstance": {"cpu": 1, "gpu": 0, "ports": {"http": 1, "ssh": 1}}}
PS = {"instances": 1, "dockerImage": "img", "commands": ["sleep 1"], **PORTS}
OURS = {
    "YARNAM_TASK_INDEX": "1",
    "YARNAM_JOB_NAME": "a",
    "YARNAM_ADDRESS": "n1",
    "YARNAM_PORT_SSH": "22",
    "YARNAM_ADDRESSES_WORKER_HTTP": "n1:81,n2:82",
    "YARNAM_ADDRESSES_WORKER_HOST": "n1:1,n2:2",
    "YARNAM_ADDRESSES_PS_HTTP": "n3:83",
}


@pytest.mark.parametrize(
    ("command", "printed", "job"),
    [
        ("echo $PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX", "1", {}),
        ("echo ${PAI_HOST_IP_worker_1}", "n2", {}),
        ("echo $PAI_HOST_IP_ps_0:$PAI_PORT_LIST_ps_0_http", "n3:83",
         {"roles": {"ps": PS}, "worker": PORTS}),
        ("echo $PAI_worker_1_http_PORT", "82", {"roles": {"ps": PS}, "worker": PORTS}),
        ("echo $PAI_TASK_ROLE_worker_HOST_LIST", "n1:81,n2:82", {"worker": PORTS}),
        ("n=PAI_TASK_ROLE_TASK_COUNT_$PAI_CURRENT_TASK_ROLE_NAME; echo ${!n}", "2", {}),
        ("printenv PAI_TASK_ROLE_LIST", "worker,ps", {"roles": {"ps": PS}}),
        ("echo $PAI_CONTAINER_SSH_PORT", "22", {"worker": PORTS}),
    ],
)  # fmt: skip
def test_openpais_variables_are_set_and_named(
    command: str, printed: str, job: dict[str, Any]
) -> None:
    made = converted(command, **job)
    assert output(made, **OURS) == f"{printed}\n"
    assert "PAI_" in head(made)


@pytest.mark.parametrize("name", ["PAI_DEFAULT_FS_URI", "PAI_WORK_DIR", "PAI_HOST_IP_gone_0"])
def test_variables_without_a_counterpart_are_named(name: str) -> None:
    assert f"nothing sets {name} here" in head(converted(f"python fit.py ${name}"))


@pytest.mark.parametrize("command", ["echo 1", "MY_PAI_X=1 echo 1", "x=PAI; echo 1"])
def test_other_commands_are_left_as_they_are(command: str) -> None:
    made = converted(command, worker=PORTS)
    assert made.spec["roles"]["worker"]["command"] == command
    assert made.spec["roles"]["worker"]["ports"] == ["http", "ssh"]
    assert "PAI" not in head(made)


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"version": 1.0}, "version"),
        ({"version": "latest", "contributor": "x"}, "version"),
        ({"extras": {"jobStatusChangeNotification": {"succeeded": True}}},
         "extras.jobStatusChangeNotification.succeeded"),
        ({"extras": {"tensorBoard": {"host": "x"}}}, "extras.tensorBoard.host"),
        ({"worker": {"extraContainerOptions": {"shmMB": 64}}},
         "taskRoles.worker.extraContainerOptions.shmMB"),
    ],
)  # fmt: skip
def test_optional_keys_are_dropped_with_a_reason(keys: dict[str, Any], key: str) -> None:
    assert key in {one.key for one in converted("true", **keys).dropped if one.why}


@pytest.mark.parametrize(
    "keys",
    [
        {"defaults": {}, "extras": None, "secrets": None},
        {"deployments": None, "jobRetryCount": None},
        {"worker": {"completion": None, "extraContainerOptions": {}}},
        {"worker": {"resourcePerInstance": {"cpu": 1, "ports": None}}},
    ],
)
def test_optional_keys_may_be_empty(keys: dict[str, Any]) -> None:
    converted("true", **keys)


@pytest.mark.parametrize(
    "keys", [{"verson": 1}, {"worker": {"image": "x"}}, {"defaults": {"queue": "x"}}]
)
def test_unknown_keys_are_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(BadSpec, match="unknown keys"):
        converted("true", **keys)


NEEDS = [
    {"type": "dockerimage", "name": "img", "uri": "team/img:1"},
    {"type": "data", "name": "letters", "uri": ["/mnt/letters", "/mnt/more"]},
    {"type": "script", "name": "fit", "uri": "https://git/fit", "version": "v2"},
    {"type": "output", "name": "letters", "uri": "hdfs://nn/out"},
]
REFERS = {"data": "letters", "script": "fit", "output": "letters"}


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("<% $data.uri[0] %>", "/mnt/letters"),
        ("<%$data.uri[1]%>", "/mnt/more"),
        ("<% $data.name %>", "letters"),
        ("<% $script.uri %>@<% $script.version %>", "https://git/fit@v2"),
        ("<% $output.uri %>", "hdfs://nn/out"),
        ("<% $parameters.net.depth %>", "18"),
        ("<% $parameters.sizes[1] %>", "2"),
        # As before.
        ("<% $parameters.lr %>", "0.1"),
        ("<% $secrets.token %>", "${token}"),
        ("plain", "plain"),
    ],
)
def test_references_are_filled_in(reference: str, text: str) -> None:
    parameters = {"lr": 0.1, "net": {"depth": 18}, "sizes": [1, 2]}
    job: dict[str, Any] = {"prerequisites": NEEDS, "parameters": parameters, "worker": REFERS}
    made = converted(f"fit {reference}", **job)
    assert made.spec["roles"]["worker"]["command"] == f"fit {text}"


@pytest.mark.parametrize(
    ("reference", "worker"),
    [
        ("<% $data.uri[2] %>", REFERS),
        ("<% $data.uri[0] %>", {}),
        ("<% $data.path %>", REFERS),
        ("<% $dockerimage.uri %>", REFERS),
        ("<% data.uri %>", REFERS),
    ],
)
def test_references_to_nothing_are_refused(reference: str, worker: dict[str, Any]) -> None:
    with pytest.raises(BadSpec):
        converted(f"fit {reference}", prerequisites=NEEDS, worker=worker)
