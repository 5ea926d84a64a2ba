"""The examples of pipelines in the tools that they are for, with jobs on the cluster. Prefect,
Dagster and Jupyter have a Python each, whose packages come before those of this one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.framework_venvs import framework_python
from tests.integration.submit_world import SubmitWorld

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples" / "pipelines"
LIMIT_S = 400
WRITE = """
from hdfs_utils import connect
from yarnam import train
place = train.output_directory("file:///nowhere")
connect(place).write_bytes(f"{place}/model.txt", b"model")
"""


@pytest.fixture
def world(submit_world: SubmitWorld) -> SubmitWorld:
    return submit_world


def run(world: SubmitWorld, tool: str, *command: str, **environ: str) -> str:
    """A module of the tool, in the directory with the spec: all that it has said."""
    (site,) = framework_python(tool).parent.parent.glob("lib/python*/site-packages")
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=world.folder,
        env={
            **world.environ,
            "HADOOP_CONF_DIR": str(world.conf_dir),
            "PYTHONPATH": f"{ROOT}:{site}",
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def spec_of(world: SubmitWorld, name: str) -> str:
    """``train.yaml`` of the examples; the URI of its output."""
    output = f"{world.home}/{name}"
    spec = world.spec(name, ["python3", "-c", WRITE], data={"outputs": output})
    Path(spec).rename(world.folder / "train.yaml")
    return output


def jobs_named(world: SubmitWorld, name: str) -> list[str]:
    return [one.application for one in world.rm.applications(user=world.user) if one.name == name]


def test_a_flow_of_prefect_runs_its_job_once(world: SubmitWorld, unique_name: Any) -> None:
    name = unique_name("flow")
    output = spec_of(world, name)
    flow = EXAMPLES / "prefect_flow.py"
    day = unique_name("day")  # The key of the job: other runs of this test have others.
    start = f"import runpy; runpy.run_path({str(flow)!r})['nightly']({day!r})"
    (world.folder / "start_flow.py").write_text(start)
    patient = {"PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "240"}
    home = str(world.folder / "prefect")
    said = [run(world, "prefect", "start_flow", PREFECT_HOME=home, **patient) for _ in range(2)]
    assert all(output in text for text in said)
    assert len(jobs_named(world, name)) == 1, "the second run has found the job of the first"


def test_an_asset_of_dagster_is_made(world: SubmitWorld, unique_name: Any) -> None:
    name = unique_name("asset")
    output = spec_of(world, name)
    home = world.folder / "dagster"
    home.mkdir()
    asset = ("-f", str(EXAMPLES / "dagster_asset.py"), "--select", "model")
    said = run(
        world, "dagster", "dagster", "asset", "materialize", *asset, "--partition", "2026-11-21",
        DAGSTER_HOME=str(home),
    )  # fmt: skip
    assert "ASSET_MATERIALIZATION" in said
    assert world.files.exists(f"{output}/model.txt")
    assert len(jobs_named(world, name)) == 1


EXECUTE = """
import sys
import nbclient, nbformat
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in sys.argv[1:]])
nbclient.NotebookClient(book, timeout=300, store_widget_state=True, kernel_name="python3").execute()
print("NOTEBOOK", nbformat.writes(book).replace(chr(10), ""))
"""


def test_a_notebook_follows_a_job(world: SubmitWorld, unique_name: Any) -> None:
    spec_of(world, unique_name("notebook"))
    submit = f"""
import sys; sys.path.insert(0, {str(EXAMPLES)!r})
import notebook, yarnam
client = yarnam.Client()
job = client.submit("train.yaml")
"""
    (world.folder / "execute.py").write_text(EXECUTE)
    said = run(world, "notebook", "execute", submit, "notebook.show(job)")
    done = json.loads(said.split("NOTEBOOK ")[1].splitlines()[0])
    (shown,) = done["cells"][1]["outputs"]
    assert "application/vnd.jupyter.widget-view+json" in shown["data"]
    state = done["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    texts = [one["state"].get("value", "") for one in state.values()]
    assert any(str(text).startswith("SUCCEEDED") for text in texts), texts


OPEN = """
import sys
import nbclient, nbformat
book = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
print(book.cells[-1].outputs[0].text)
"""


def test_a_notebook_drives_a_gang(world: SubmitWorld) -> None:
    (world.folder / "open.py").write_text(OPEN)
    book = EXAMPLES.parent / "notebook" / "gang.ipynb"
    said = run(world, "notebook", "open", str(book), YARNAM_EXAMPLE_QUEUE=world.queue)
    assert sorted(line for line in said.splitlines() if line.startswith("rank ")) == [
        f"rank {rank} of 4" for rank in range(4)
    ]
