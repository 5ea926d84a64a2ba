"""The gallery: each example whose framework installs here, as a job on the real cluster.

The job's Python is a virtual environment with the framework; the program and the spec are the
example's own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.framework_venvs import BUILT_ON_THEM, PACKAGES, framework_python
from tests.integration.submit_world import SubmitWorld
from tests.unit.docs.pages import blocks
from tests.unit.docs.test_code_blocks import yarnam_commands
from yarnam import Client

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
RECORD = Path(__file__).parents[2] / "docs" / "reference" / "support.json"
JOB_S = 600
"""Imports alone take a minute for each process on a busy machine."""

pytestmark = [
    pytest.mark.yarn,
    pytest.mark.hdfs,
    pytest.mark.frameworks,
    pytest.mark.timeout(2500),
]

TWO_RANKS = tuple(rf"rank {rank} of 2\b" for rank in range(2))
FOUR_RANKS = tuple(rf"rank {rank} of 4\b" for rank in range(4))


@dataclass(frozen=True)
class Example:
    """``packages``: of ``framework_venvs``; ``printed``: patterns of what all processes print;
    ``shared``: the command's option for a directory that all nodes share."""

    packages: str
    printed: tuple[str, ...]
    least_accuracy: float = 0.0
    env: dict[str, str] = field(default_factory=dict)
    shared: str = ""


GALLERY = {
    "hello": Example("", tuple(rf"rank {rank} of 3, task worker" for rank in range(3))),
    "roles": Example("", (r"y = (2\.9|3\.0)\d x \+ (0\.9|1\.0)\d",)),
    "pytorch": Example("torch", ("done on 4 processes", r"step 400 of 400  loss 0\.0")),
    "torchrun": Example("torch", FOUR_RANKS, 0.9),
    "torchrun-elastic": Example("torch", (r"rank 0 of [23] has learnt",), 0.9),
    "fsdp": Example("torch", tuple(f"rank {rank} of 2 holds" for rank in range(2)), 0.9),
    "lightning": Example("torch", TWO_RANKS, 0.9),
    "accelerate": Example("torch", TWO_RANKS, 0.9),
    "hf-trainer": Example("torch", TWO_RANKS, 0.9),
    "deepspeed": Example(
        "torch",
        (r"rank 0 of 2, .*Zero", r"rank 1 of 2, .*Zero"),
        0.9,
        {"DS_ACCELERATOR": "cpu"},
    ),
    "keras": Example("keras", TWO_RANKS, 0.9),
    "tensorflow": Example("tensorflow", TWO_RANKS, 0.9),
    "tensorflow-ps": Example("tensorflow", ("epoch 4 of 4", "ckpt-4: "), 0.9, shared="--model"),
    "xgboost": Example("xgboost", TWO_RANKS, 0.9),
    "lightgbm": Example("lightgbm", TWO_RANKS, 0.9),
    "dask": Example("dask", ("darts of worker-0, worker-1", r"pi is 3\.14")),
    "ray": Example("ray", ("darts of 2 nodes", r"pi is 3\.14")),
    "mpi": Example("openmpi", (*FOUR_RANKS, r"pi is 3\.14159265")),
    "horovod": Example("horovod", (r"4 ranks: y = (2\.99|3\.00)\d x -(0\.99|1\.00)\d",)),
    "horovod-elastic": Example(
        "horovod", (r"8 ranks, 2000 steps: y = (2\.99|3\.00)\d x -(0\.99|1\.00)\d",)
    ),
    "paddle": Example(
        "paddle",
        tuple(f"rank {n} of 2: y = 3.000 x -1.000" for n in range(2)),
        # The job's GPUs are simulated.
        env={"PADDLE_DISTRI_BACKEND": "gloo"},
    ),
}
ELSEWHERE = {"digits", "notebook"}
"""In test_examples and test_notebook."""
NO_JOBS = {"queues", "pipelines"}


def test_the_gallery_is_whole() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert folders == {*GALLERY, *ELSEWHERE, *NO_JOBS}


@pytest.mark.parametrize("name", GALLERY)
def test_an_example_runs(name: str, submit_world: SubmitWorld, unique_name: Any) -> None:
    example = GALLERY[name]
    keys: dict[str, Any] = {"name": unique_name(name)}
    if example.shared:
        folder = str(submit_world.folder / "shared")
        keys["command"] = ["python3", "code/train.py", example.shared, folder]
    application = submit(submit_world, name, keys)
    output = output_of(submit_world, application)
    for pattern in example.printed:
        assert re.search(pattern, output), output
    if example.least_accuracy:
        assert accuracy_in(output) > example.least_accuracy, output
    record(name, example)


def record(name: str, example: Example) -> None:
    """Where YARNAM_RECORD_SUPPORT is set: what has run, for the table of support."""
    if not os.environ.get("YARNAM_RECORD_SUPPORT"):
        return
    found = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    found[name] = {"on": time.strftime("%Y-%m-%d"), "versions": versions(example.packages)}
    RECORD.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def versions(packages: str) -> dict[str, str]:
    """Of the packages that were asked for, as they are installed."""
    if not packages:
        return {}
    done = subprocess.run(
        [str(framework_python(packages)), "-m", "pip", "list", "--format", "json"],
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    listed = json.loads(done.stdout)
    installed = {each["name"].lower().replace("_", "-"): each["version"] for each in listed}
    wanted = [*PACKAGES[packages], *BUILT_ON_THEM.get(packages, ())]
    names = [re.split("[<=]", package)[0] for package in wanted]
    names += ["torch"] if "torch" in installed else []
    return {name: installed[name] for name in names if name in installed}


def test_hugging_faces_trainer_saves_when_it_is_interrupted_and_goes_on(
    submit_world: SubmitWorld, unique_name: Any
) -> None:
    """At SIGTERM it ends its step and saves; `stop_grace` of the example gives it the time."""
    saved = submit_world.folder / "checkpoints"
    command = ["python3", "code/train.py", "--checkpoints", str(saved), "--epochs", "60"]
    keys = {"name": unique_name("hf"), "command": command, "retry": {"max_restarts": 0}}
    application = submit(submit_world, "hf-trainer", keys)
    deadline = time.monotonic() + JOB_S
    while "'loss'" not in submit_world.run("logs", application).out:
        assert time.monotonic() < deadline
        time.sleep(1)
    with Client(submit_world.conf_dir) as client:
        client.job(application).interrupt()
    output = output_of(submit_world, application)
    assert re.search(r"going on from \S+/checkpoint-\d+", output), output
    assert accuracy_in(output) > 0.9, output


def submit(submit_world: SubmitWorld, example: str, keys: dict[str, Any]) -> str:
    """An example's own spec, but for its Python and ``keys``."""
    packages, folder = GALLERY[example].packages, EXAMPLES / example
    document = yaml.safe_load((folder / "spec.yaml").read_text()) | keys
    if "code" in document:
        document["code"] = str((folder / document["code"]).resolve())
    python = framework_python(packages) if packages else sys.executable
    document["environment"] = {"python": str(python)}
    document["env"] = {**document.get("env", {}), **GALLERY[example].env}
    path = submit_world.folder / "spec.yaml"
    path.write_text(yaml.safe_dump(document))
    return submit_world.submit(str(path))


def output_of(submit_world: SubmitWorld, application: str) -> str:
    """What all its processes print; it succeeds."""
    ends = ("SUCCEEDED", "FAILED", "CANCELLED")
    status = submit_world.await_state(application, *ends, limit_s=JOB_S)
    logs = submit_world.run("logs", application)
    assert status["state"] == "SUCCEEDED", f"{status}\n{logs.out}"
    assert logs.code == 0, logs.err
    return logs.out


def accuracy_in(output: str) -> float:
    (accuracy,) = re.findall(r"test accuracy (\d\.\d+)", output)
    return float(accuracy)


TORCHRUN_PAGE = EXAMPLES.parent / "start" / "torchrun.md"


def test_the_first_page_of_a_user_from_its_script_to_its_logs(
    submit_world: SubmitWorld, unique_name: Any
) -> None:
    """The page's own files and commands, in its order; the packages come from a virtual environment
    that is there already."""
    name = unique_name("page")
    for block in blocks("python", "text", "yaml", pages=[TORCHRUN_PAGE]):
        if block.file:
            (submit_world.folder / block.file).write_text(block.text)
    spec = submit_world.folder / "job.yaml"
    document = yaml.safe_load(spec.read_text())
    assert document["environment"] == {"requirements": "requirements.txt"}
    document["environment"] = {"python": str(framework_python("torch"))}
    spec.write_text(yaml.safe_dump(document | {"name": name}))
    lines = [
        line for block in blocks("sh", pages=[TORCHRUN_PAGE]) for line in block.text.splitlines()
    ]
    commands = [call for line in lines for call in yarnam_commands(line)]
    ran = [command[0] for command in commands]
    assert ran[:2] == ["doctor", "queues"]
    for command in commands:
        if command[0] in {"doctor", "ui"}:  # what a site lacks; a server that stays
            continue
        words = [name if word == "digits" else word for word in command]
        words = [str(spec) if word == "job.yaml" else word for word in words]
        result = submit_world.run(*words)
        assert result.code == 0, (words, result)
        if command[0] == "logs":
            assert re.search(r"epoch 7: loss \d\.\d+, 4 processes", result.out), result.out
