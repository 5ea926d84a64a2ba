"""The Airflow provider in a real Apache Airflow, with its database in SQLite."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
VERSIONS = {"2": "apache-airflow>=2.10,<3", "3": "apache-airflow>=3.3,<4"}
"""Both within the extra ``airflow``."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module", params=VERSIONS)
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What the scenarios came to, in each version. Airflow gets a virtual environment of its own:
    its pins and ours need not agree. Without a package index this fails."""
    folder = tmp_path_factory.mktemp("airflow")
    environ = {
        **os.environ,
        "AIRFLOW_HOME": str(folder / "home"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW_CONN_YARNAM_DEFAULT": json.dumps(
            {"conn_type": "yarnam", "login": "me", "extra": {"conf_dir": "/etc/hadoop/conf"}}
        ),
        "AIRFLOW_CONN_LISTED": json.dumps({"conn_type": "yarnam", "extra": "[1]"}),
        "PYTHONPATH": str(ROOT),
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            command, env=environ, cwd=folder, capture_output=True, text=True, timeout=900
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    (folder / "dags").mkdir()
    shutil.copy(ROOT / "tests/setup/airflow_dags.py", folder / "dags")
    bin_dir = folder / "venv/bin"
    run(sys.executable, "-m", "venv", str(folder / "venv"))
    # pip takes more than an hour to choose the releases that Airflow 3 needs.
    run(str(bin_dir / "pip"), "install", "-q", "uv")
    install = ["pip", "install", "-q", "--python", str(bin_dir / "python")]
    run(str(bin_dir / "uv"), *install, VERSIONS[request.param], "-e", str(ROOT))
    run(str(bin_dir / "airflow"), "db", "migrate")
    out = run(str(bin_dir / "python"), str(ROOT / "tests/setup/airflow_scenarios.py"))
    return dict(json.loads(out.splitlines()[-1]))


def test_airflow_knows_the_provider_and_its_connection(found: dict[str, Any]) -> None:
    assert found["hook"] == "yarnam.airflow.yarnam_hook.YarnamHook"
    assert found["settings"] == ["/etc/hadoop/conf", "me"]
    assert found["trigger"], "it comes back from Airflow's database as it was"


@pytest.mark.parametrize("way", ["deferred", "waiting"])
def test_a_task_runs_its_job_and_hands_on_its_output(found: dict[str, Any], way: str) -> None:
    assert found[way]["state"] == "success"
    assert found[way]["output"] == "/results/2026-11-21", "the spec is a template"
    assert found[way]["apps"] == [found[way]["app"]]


def test_a_failed_job_fails_its_task(found: dict[str, Any]) -> None:
    assert (found["failed"]["state"], found["failed"]["output"]) == ("failed", None)


def test_a_retry_finds_a_job_that_lives_and_replaces_one_that_has_ended(
    found: dict[str, Any],
) -> None:
    first, after_lost_worker, after_failure = found["lost worker"]["apps"]
    assert after_lost_worker == first
    assert after_failure != first


def test_what_goes_wrong_outside_a_job_is_an_error_of_airflows(found: dict[str, Any]) -> None:
    errors = found["errors"]
    kind, text = errors["a spec"]
    assert (kind, "quue" in text) == ("AirflowFailException", True)
    kind, text = errors["a job that cannot be watched"]
    assert (kind, "application_1_9" in text) == ("AirflowException", True)
    kind, text = errors["an extra"]
    assert (kind, "listed" in text) == ("AirflowFailException", True)


def test_a_task_that_is_killed_kills_its_job(found: dict[str, Any]) -> None:
    assert len(found["killed"]) == len(found["killed while deferred"]) == 1
