"""Which modules a job's environment is tried for, by what job, and what its report says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.unit.client.world import job_spec
from yarnam.client.environments.environment_check import (
    check_job,
    imported_modules,
    read_report,
)
from yarnam.client.environments.programs import environment_probe
from yarnam.core.model.job_spec import DataInput, EnvironmentSpec, ShippedFile


def test_the_imports_of_the_code_are_found(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, torch.nn as nn, models\nfrom numpy import array\nfrom . import x\n"
        "import yarnam.train\n\ndef f():\n    import only_there\n"
    )
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.py").write_text("import jax\n")
    (tmp_path / "broken.py").write_text("import (")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.py").write_text("import hidden_one\n")
    job = job_spec(files=(ShippedFile("code", str(tmp_path)),))
    assert imported_modules(job) == ("jax", "numpy", "torch")


def test_the_check_is_a_small_job_with_the_same_environment() -> None:
    given = job_spec(
        environment=EnvironmentSpec("bundled"),
        output="hdfs:///out",
        inputs=(DataInput("a", "hdfs:///a"),),
        idempotency_key="k",
    )
    job = check_job(given, ["torch"])
    [role] = job.roles
    assert (role.tasks, role.resources.gpus, role.processes_per_task) == (1, 1, 1)
    assert role.command == ("python3", "yarnam-env-probe.py", "torch")
    assert (job.environment, job.queue) == (given.environment, given.queue)
    assert (job.inputs, job.output, job.idempotency_key) == ((), "", "")


def test_the_report_says_what_is_missing_by_name(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text("print('hello')\n__version__ = '1.2'\n")
    (tmp_path / "broken.py").write_text("raise SystemExit(3)\n")
    done = subprocess.run(
        [sys.executable, str(environment_probe.__file__), "loud", "broken", "absent_one"],
        env={"PYTHONPATH": str(tmp_path)}, capture_output=True, check=True,
    )  # fmt: skip
    report = read_report(b"noise before\n" + done.stdout + b"noise after")
    assert report is not None
    assert report.modules == {"loud": "1.2"}
    assert report.missing == {
        "broken": "SystemExit: 3",
        "absent_one": "ModuleNotFoundError: No module named 'absent_one'",
    }
    assert report.python == "{}.{}.{}".format(*sys.version_info)


def test_a_damaged_report_is_none() -> None:
    mark = environment_probe.MARK.encode()
    for output in (b"", mark, mark + b'{"modules": 1}\n', mark + b"{" * 100_000):
        assert read_report(output) is None
