"""Jobs of other systems become valid specs; no key is forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from yarnam.errors import BadSpec
from yarnam.spec import parse_spec_dict
from yarnam.spec.importers import openpai, tony
from yarnam.spec.importers.conversion import Conversion

TONY = {
    "tony.application.name": "mnist distributed",
    "tony.application.framework": "pytorch",
    "tony.yarn.queue": "ml.research",
    "tony.worker.instances": "4",
    "tony.worker.memory": "8g",
    "tony.worker.gpus": "1",
    "tony.worker.resources": "data/vocab.txt::words.txt, hdfs:///tools/tools.zip#archive",
    "tony.evaluator.instances": "0",
    "tony.containers.envs": "LR=0.1,SEED=7",
    "tony.am.retry-count": "2",
    "tony.am.memory": "4g",
    "tony.task.heartbeat-interval-ms": "500",
    "tony.container.allocation.timeout": "600500",
    "tony.application.timeout": "7200000",
    "tony.application.node-label": "gpu",
    "tony.worker.node-label": "v100",
    "tony.application.fail-on-worker-failure-enabled": "true",
    "yarn.of.somebody.else": "1",
}
TRAIN = tony.Arguments(executes="train.py", src_dir="src", task_params="--epochs 3")

OPENPAI: dict[str, Any] = {
    "protocolVersion": 2,
    "name": "resnet",
    "type": "job",
    "jobRetryCount": 3,
    "parameters": {"lr": 0.1},
    "secrets": {"wandb": "s3cret"},
    "taskRoles": {
        "Train_worker": {
            "instances": 2,
            "completion": {"minFailedInstances": 1},
            "dockerImage": "img",
            "resourcePerInstance": {"gpu": 4, "cpu": 16, "memoryMB": 65536, "ports": {"ssh": 1}},
            "commands": ["pip list", "train <% $parameters.lr %> <% $secrets.wandb %>"],
        }
    },
    "defaults": {"virtualCluster": "vc1"},
    "extras": {"gangAllocation": False, "hivedScheduler": {"jobPriorityClass": "prod"}},
}


def check(made: Conversion) -> dict[str, Any]:
    """The spec, which is valid."""
    environ = dict.fromkeys(made.spec.get("env", ()), "")
    parse_spec_dict(made.spec, check_paths=False, environ=environ)
    return made.spec


def dropped(made: Conversion) -> set[str]:
    return {one.key for one in made.dropped}


def test_tony() -> None:
    made = tony.convert(TONY, TRAIN)
    assert check(made) == {
        "version": 1,
        "name": "mnist-distributed",
        "queue": "root.ml.research",
        "framework": "pytorch",
        "command": "python3 train.py --epochs 3",
        "code": "src",
        "env": {"LR": "0.1", "SEED": "7"},
        "files": [
            {"source": "data/vocab.txt", "name": "words.txt"},
            {"source": "hdfs:///tools/tools.zip", "archive": True},
        ],
        "roles": {
            "worker": {
                "tasks": 4, "gpus": 1, "memory": "8GiB", "vcores": 1, "processes": "per-task",
                "node_label": "v100",
            }
        },
        "placement": {"node_label": "gpu"},
        "gang": {"hold_timeout": "600500ms"},
        "retry": {"max_restarts": 2, "on_user_failure": 2},
        "time_limit": "7200s",
        "compat": "tony",
    }  # fmt: skip
    assert dropped(made) == {
        "tony.application.timeout",
        "tony.am.memory",
        "tony.evaluator.instances",
        "tony.task.heartbeat-interval-ms",
        "yarn.of.somebody.else",
    }


def test_tonys_soft_rule_is_told() -> None:
    plain = {"tony.worker.instances": "1", "tony.chief.instances": "1"}
    plain["tony.containers.command"] = "train"
    made = tony.convert(plain)
    assert check(made)["framework"] == "tensorflow"
    assert dropped(made) == {"tony.application.fail-on-worker-failure-enabled"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tony.foo": "1"}, "unknown keys: tony.foo"),
        ({"tony.worker.instances": "many"}, "tony.worker.instances is 'many'"),
        ({"tony.worker.memory": "lots"}, "'lots' is not an amount of memory"),
        ({"tony.containers.envs": "A"}, "'A' is no NAME=VALUE"),
        ({"tony.application.framework": "mxnet"}, "mxnet is not supported any more"),
    ],
)
def test_what_tony_would_not_run_either(change: dict[str, str], words: str) -> None:
    with pytest.raises(BadSpec, match=words):
        tony.convert({**TONY, **change}, TRAIN)


def test_tony_without_a_program() -> None:
    with pytest.raises(BadSpec, match="does not say what worker runs"):
        tony.convert(TONY)


def test_openpai() -> None:
    made = openpai.convert(OPENPAI, "job.yaml")
    spec = check(made)
    worker = spec["roles"]["train-worker"]
    assert worker["command"] == "pip list\ntrain 0.1 ${wandb}"
    assert (worker["tasks"], worker["gpus"], worker["memory"]) == (2, 4, "65536MiB")
    assert worker["ports"] == ["ssh"]
    assert spec["env"] == {"wandb": {"from": "client"}}
    assert "s3cret" not in str(spec)
    assert spec["queue"] == "root.vc1"
    assert dropped(made) == {
        "type",
        "extras.gangAllocation",
        "taskRoles.Train_worker.dockerImage",
    }
    assert spec["gang"] == {"priority": 5}


def with_hived(**hived: Any) -> dict[str, Any]:
    return {**OPENPAI, "extras": {"hivedScheduler": hived}}


@pytest.mark.parametrize(
    ("sku", "model"),
    [("DGX2-V100-NODE", "V100"), ("k80", "K80"), ("NC24_A100", "A100"), ("MI100-NODE", "MI100"),
     ("GENERIC-WORKER", None), ("DGX2-NODE", None)],
)  # fmt: skip
def test_an_openpai_sku_type_is_the_gpu_model(sku: str, model: str | None) -> None:
    made = openpai.convert(with_hived(taskRoles={"Train_worker": {"skuType": sku}}), "job.yaml")
    spec = check(made)
    assert spec.get("placement", {}).get("gpu_model") == model
    key = "extras.hivedScheduler.taskRoles.Train_worker.skuType"
    assert (key in dropped(made)) == (model is None)


def test_openpai_sku_types_of_several_models_are_any() -> None:
    job = with_hived(
        taskRoles={"a": {"skuType": "V100"}, "b": {"skuType": "K80", "skuNum": 4}},
        jobPriorityClass="oppo",
    )
    role = OPENPAI["taskRoles"]["Train_worker"]
    job["taskRoles"] = {"a": role, "b": role}
    made = openpai.convert(job, "job.yaml")
    spec = check(made)
    assert spec["placement"] == {"gpu_model": "any"}
    assert spec["gang"] == {"priority": -5}
    prefix = "extras.hivedScheduler."
    assert {key for key in dropped(made) if key.startswith(prefix)} == {
        f"{prefix}taskRoles.a.skuType",
        f"{prefix}taskRoles.b.skuType",
        f"{prefix}taskRoles.b.skuNum",
        f"{prefix}jobPriorityClass",
    }


@pytest.mark.parametrize("key", ["skuTypo", "affinity"])
def test_unknown_keys_of_hived_are_refused(key: str) -> None:
    with pytest.raises(BadSpec, match=key):
        openpai.convert(with_hived(taskRoles={"Train_worker": {key: 1}}), "job.yaml")


@pytest.mark.parametrize(
    ("change", "restarts", "has_rules", "is_noted"),
    [
        ({}, 3, True, False),
        ({"jobRetryCount": 0}, None, True, False),
        ({"jobRetryCount": -1}, None, True, True),
        ({"retryPolicy": {"fancyRetryPolicy": True, "maxRetryCount": 2}}, 2, True, False),
        ({"retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 2}}, 2, False, False),
        ({"retryPolicy": {"maxRetryCount": -2}}, None, False, True),
    ],
)
def test_an_openpai_retry_policy(
    change: dict[str, Any], restarts: int | None, has_rules: bool, is_noted: bool
) -> None:
    job = {**OPENPAI, **change}
    if "retryPolicy" in change:
        del job["jobRetryCount"]
    made = openpai.convert(job, "job.yaml")
    retry = check(made).get("retry", {})
    assert retry.get("max_restarts") == retry.get("on_user_failure") == restarts
    assert ("rules" in retry) == has_rules
    assert any("etry" in key for key in dropped(made)) == is_noted


def test_openpai_exit_codes_decide_before_yarnams_rules() -> None:
    spec = check(openpai.convert(OPENPAI, "job.yaml"))
    by_signal = {
        number: rule["action"] for rule in spec["retry"]["rules"] for number in rule["signals"]
    }
    assert by_signal == {4: "never", 7: "never", 8: "never", 13: "never", 26: "retry-free"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"protocolVersion": 1}, "protocolVersion is not 2"),
        ({"parameters": {}}, "the parameter lr is not set"),
        ({"taskRoles": {}}, "no taskRoles"),
        ({"retries": {"of": 3}}, "unknown keys: retries.of"),
    ],
)
def test_what_openpai_refuses(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BadSpec, match=words):
        openpai.convert({**OPENPAI, **change}, "job.yaml")


def test_the_files_are_told_apart(tmp_path: Path) -> None:
    """By their content, through the command itself."""
    from click.testing import CliRunner

    from yarnam.cli.setup.import_command import command

    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in TONY.items()
    )
    file = tmp_path / "tony.xml"
    file.write_text(f"<configuration>{rows}</configuration>")
    output = tmp_path / "job.yaml"
    done = CliRunner().invoke(command, [str(file), "--executes=train.py", "-o", str(output)])
    assert done.exit_code == 0, done.output
    assert output.read_text().startswith("# Converted from tony.xml.\n# Not converted")
    again = CliRunner().invoke(command, [str(file), "--executes=train.py", "-o", str(output)])
    assert "already exists" in str(again.exception)


@pytest.mark.parametrize(
    ("text", "system", "instead"),
    [
        ("$HBOX_HOME/bin/hbox-submit --app-type tensorflow", "hbox", "--launch-cmd is `command`"),
        ("xl-submit --app-type tensorflow", "hbox", "--launch-cmd is `command`"),
        ("roles: {worker: {replicas: 2}}", "submarine", "replicas are `tasks`"),
        ("worker: {count: 3}", "dask-yarn", "yarnam spec init --framework dask"),
        ("yarn: {name: dask}", "dask-yarn", "yarnam spec init --framework dask"),
    ],
)
def test_jobs_of_former_systems_are_refused_with_what_to_use(
    text: str, system: str, instead: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from yarnam.cli.shell import run
    from yarnam.errors import ExitCode

    file = tmp_path / "job"
    file.write_text(text)
    for arguments in ([], ["--from", system]):
        assert run(["import", str(file), *arguments]) == ExitCode.USAGE
        shown = capsys.readouterr().err
        assert system in shown
        assert instead in shown


@pytest.mark.parametrize(
    ("convert", "words"),
    [
        (lambda: openpai.convert({**OPENPAI, "taskRoles": [1]}, "f"), "taskRoles is not a mapping"),
        (lambda: openpai.convert({**OPENPAI, "parameters": 3}, "f"), "parameters is not a mapping"),
        (lambda: tony.convert(TONY, tony.Arguments(shell_env=("A='1",))), "No closing quotation"),
    ],
)
def test_values_of_the_wrong_kind_are_named(convert: Any, words: str) -> None:
    """They ended as internal errors."""
    with pytest.raises(BadSpec, match=words):
        convert()


def test_a_file_that_is_cut_off_is_no_fault_of_yarnam(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from yarnam.cli.setup.import_command import command

    file = tmp_path / "tony.xml"
    file.write_text("<configuration><property>")
    done = CliRunner().invoke(command, [str(file)])
    assert isinstance(done.exception, BadSpec)
    assert "tony.xml" in str(done.exception)


def roles_of(completions: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], set[str]]:
    role = {**OPENPAI["taskRoles"]["Train_worker"], "instances": 4}
    roles = {name: {**role, "completion": given} for name, given in completions.items()}
    made = openpai.convert({**OPENPAI, "taskRoles": roles}, "job.yaml")
    keys = ("completion", "service", "optional")
    spec = check(made)["roles"]
    kept = {name: {k: v for k, v in one.items() if k in keys} for name, one in spec.items()}
    return kept, {key for key in dropped(made) if "completion" in key}


def test_openpais_completion() -> None:
    ps = {"minFailedInstances": 1, "minSucceededInstances": -1}
    assert roles_of({"ps": ps, "worker": {"minSucceededInstances": 4}}) == (
        {"ps": {"service": True}, "worker": {}},
        set(),
    )
    any_of = {"minSucceededInstances": 1, "minFailedInstances": 3}
    kept, noted = roles_of({"worker": any_of, "board": {"minFailedInstances": -1}})
    assert kept == {
        "worker": {"completion": {"at_least": 1}},
        "board": {"service": True, "optional": True},
    }
    assert noted == {"taskRoles.worker.completion.minFailedInstances"}
    kept, noted = roles_of({"worker": {"minFailedInstances": 2}})
    assert kept == {"worker": {"completion": {"at_least": 3}}}
    kept, noted = roles_of({"worker": {"minFailedInstances": -1}, "eval": {}})
    assert kept == {"worker": {"optional": True}, "eval": {}}
    assert roles_of({"a": {"minFailedInstances": None}}) == ({"a": {}}, set())


def test_openpais_retries() -> None:
    retry = check(openpai.convert(OPENPAI, "job.yaml"))["retry"]
    assert (retry["max_restarts"], retry["on_user_failure"]) == (3, 3)
    endless = openpai.convert({**OPENPAI, "jobRetryCount": -1}, "job.yaml")
    assert set(endless.spec["retry"]) == {"rules"}
    assert "jobRetryCount" in dropped(endless)
