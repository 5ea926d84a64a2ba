"""`environment:` in the spec: where the job's Python comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from yarnam.core.model.job_spec import (
    ContainerImage,
    ContainerRuntime,
    EnvironmentSpec,
    PackedFrom,
    PackSource,
)
from yarnam.errors import BadSpec
from yarnam.spec.loader import parse_spec_file

SPEC = """\
version: 1
name: hello
queue: root.dl
command: python3 train.py
gpus: 1
environment: {environment}
"""


def environment(folder: Path, text: str) -> EnvironmentSpec:
    file = folder / "job.yaml"
    file.write_text(SPEC.replace("{environment}", text))
    return parse_spec_file(file, user="me").environment


@pytest.mark.parametrize("kind", [*PackSource])
def test_what_submit_packs_is_found_beside_the_spec(tmp_path: Path, kind: PackSource) -> None:
    source = tmp_path / "source"
    if kind in (PackSource.VENV, PackSource.PYPROJECT):
        source.mkdir()
    else:
        source.touch()
    found = environment(tmp_path, f"{{{kind.value}: source}}")
    assert found == EnvironmentSpec("bin/python", packed_from=PackedFrom(kind, str(source)))


def test_the_active_environment_needs_no_file(tmp_path: Path) -> None:
    found = environment(tmp_path, "{venv: active}")
    assert found.packed_from == PackedFrom(PackSource.VENV, "active")


def test_the_bundled_python_is_no_path(tmp_path: Path) -> None:
    assert environment(tmp_path, "{python: bundled}") == EnvironmentSpec("bundled")


def test_an_image_may_have_mounts_and_a_python(tmp_path: Path) -> None:
    text = "{docker: {name: 'r/x:1', mounts: ['/a:/b:ro']}, python: /opt/conda/bin/python}"
    image = ContainerImage(ContainerRuntime.DOCKER, "r/x:1", ("/a:/b:ro",))
    assert environment(tmp_path, text) == EnvironmentSpec("/opt/conda/bin/python", image=image)
    found = environment(tmp_path, "{runc: 'r/x:1'}")
    assert found.image == ContainerImage(ContainerRuntime.RUNC, "r/x:1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{requirements: missing.txt}", r"job.yaml:6:.*no such file"),
        ("{venv: job.yaml}", r"must be a directory"),
        ("{venv: active, requirements: job.yaml, python: python3}", "leave out"),
        ("{archive: env.tar.gz, venv: active}", "leave out archive"),
        ("{docker: x, runc: x}", "one runtime"),
        ("{docker: {name: x, mounts: [/a:/b]}}", "mounts"),
        ("{archive: env.tar.gz, python: bundled}", "has an interpreter of its own"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "env.tar.gz").touch()
    with pytest.raises(BadSpec, match=said):
        environment(tmp_path, text)
