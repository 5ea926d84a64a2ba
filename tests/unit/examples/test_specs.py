"""The specs in docs/examples are valid, and say what their comments and pages say."""

from __future__ import annotations

from pathlib import Path

import pytest

from yarnam.spec import parse_spec_file

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
SPECS = sorted(p for p in EXAMPLES.glob("*/*.yaml") if p.parent.name != "queues")
"""A policy of queues is no job."""


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.parent.name)
def test_an_example_is_valid(path: Path) -> None:
    job = parse_spec_file(path)
    assert job.gpus > 0
    for file in job.files:
        assert Path(file.source).exists()


WITHOUT_SPEC = {"queues", "pipelines"}
"""Allocation files; programs that make their specs themselves."""


def test_every_example_has_a_spec() -> None:
    folders = {
        path for path in EXAMPLES.iterdir() if path.is_dir() and path.name not in WITHOUT_SPEC
    }
    assert folders == {path.parent for path in SPECS}


def test_the_gallery_names_every_example() -> None:
    page = (EXAMPLES.parent / "how-to" / "frameworks.md").read_text()
    gallery = page.partition("## Gallery of examples")[2]
    rows = {line.split("`")[1] for line in gallery.splitlines() if line.startswith("| `")}
    assert rows == {path.name for path in EXAMPLES.iterdir() if path.is_dir()}


def test_the_digits_run_as_two_tasks_of_two_processes() -> None:
    job = parse_spec_file(EXAMPLES / "digits" / "spec.yaml")
    (role,) = job.roles
    assert job.framework == "jax"
    assert (role.tasks, role.processes_per_task, role.resources.gpus) == (2, 2, 2)
    assert [given.name for given in job.inputs] == ["digits"]
    assert job.checkpoint.directory
    assert job.output


def test_the_demo_looks_where_the_spec_writes() -> None:
    demo = (EXAMPLES.parents[1] / "tools" / "demo.py").read_text()
    job = parse_spec_file(EXAMPLES / "digits" / "spec.yaml")
    assert f'OUTPUT = "{job.output}"' in demo
    assert f'CHECKPOINTS = "{job.checkpoint.directory}"' in demo
    assert f'DATA = "hdfs://{job.inputs[0].uri}"' in demo


def test_the_spec_for_a_torchrun_script_is_short() -> None:
    text = (EXAMPLES / "torchrun" / "spec.yaml").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 10


def test_the_roles_start_and_end_as_the_page_says() -> None:
    job = parse_spec_file(EXAMPLES / "roles" / "spec.yaml")
    assert job.services == {"ps"}
    assert [after.role for role in job.roles for after in role.after] == ["ps"]
    assert [role.completion.at_least for role in job.roles] == [0, 2]
