"""The JSON Schema against the parser, the starters, the examples; generated files are current."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from yarnam.core.frameworks.registry import NAMES, framework_named
from yarnam.errors import BadSpec, UsageError
from yarnam.spec import json_schema, parse_spec_file, parse_spec_text, template
from yarnam.spec.export.reference_page import reference_page
from yarnam.spec.job_builder import MEMORY_PER_GPU_MIB, MEMORY_WITHOUT_GPU_MIB, VCORES_PER_GPU
from yarnam.spec.sections.document import Document
from yarnam.spec.sections.section_base import Section
from yarnam.spec.shipping.shipped_folder import EXCLUDED_FOLDERS
from yarnam.spec.values.units import format_size

ROOT = Path(__file__).parents[3]
VALIDATOR = Draft202012Validator(json_schema())
HEAD = {"version": 1, "name": "x", "queue": "root.q", "command": ["ls"]}


def accepts(document: Any) -> bool:
    return not list(VALIDATOR.iter_errors(document))


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("framework", NAMES)
def test_starters_are_valid(framework: str, tmp_path: Path) -> None:
    text = template(framework)
    (tmp_path / "train.py").touch()
    made = parse_spec_text(text, base_dir=tmp_path)
    assert made.framework == framework
    assert accepts(yaml.safe_load(text))


@pytest.mark.parametrize("framework", NAMES)
def test_what_the_starters_leave_commented_is_valid_too(framework: str) -> None:
    text = template(framework).replace(framework_named(framework).starter.comment, "")
    skipped = (
        "# A job",
        "# All keys",
        "# The",
        "# Files",
        "# and memory",
        "# Or",
        "# A list",
        "#\n",
    )
    lines = []
    for line in text.splitlines():
        is_key = line.startswith(("# ", "#   ")) and not line.startswith(skipped)
        is_other = line.startswith(
            (
                "# roles",
                "#   worker",
                "# environment: {python",
                "# files",
                "#   - settings",
                "#   - {source",
            )
        )
        lines.append(line.removeprefix("# ") if is_key and not is_other else line)
    made = parse_spec_text("\n".join(lines), environ={"API_TOKEN": "t"}, check_paths=False)
    assert made.checkpoint.directory
    assert made.placement.exclude_nodes
    assert made.secret_env == ("API_TOKEN",)


def test_an_unknown_starter() -> None:
    with pytest.raises(UsageError, match=f"one of {', '.join(NAMES)}"):
        template("caffe")


def example_specs() -> list[Path]:
    files = sorted((ROOT / "docs/examples").rglob("*.yaml"))
    return [file for file in files if "\nqueue:" in file.read_text(encoding="utf-8")]


@pytest.mark.parametrize("file", example_specs(), ids=lambda file: str(file.relative_to(ROOT)))
def test_examples_are_valid(file: Path) -> None:
    parse_spec_file(file)
    assert accepts(yaml.safe_load(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "more",
    [
        {"gpus": 4},
        {"gpus": 4, "command": "ls -l"},
        {"gpus": 4, "command": ["sleep", 10]},
        {"gpus": 4, "env": {"A": 1, "B": "x", "C": {"from": "client"}}},
        {"gpus": 4, "files": ["a", {"source": "b", "archive": True}]},
        {"gpus": 4, "gang": {"hold_timeout": "1h30m"}, "memory_per_gpu": "8GiB"},
        {"gpus": 4, "data": {"inputs": ["/a", {"path": "/b"}]}},
        {"roles": {"worker": {"tasks": 2, "gpus": 1, "memory": "16g"}}},
        {"roles": {"worker": {"tasks": {"min": 2, "max": 8}, "gpus": 1}}},
        {"gpus": {"min": 4, "max": 16}, "elastic": {"patience": "2min", "grow": False}},
    ],
)
def test_good_documents(more: dict[str, Any]) -> None:
    assert accepts({**HEAD, **more})


@pytest.mark.parametrize("more", [{}, {"gpus": 1}, {"roles": {"a": {"memory": "8GiB"}}}])
def test_a_notebook_has_no_command(more: dict[str, Any]) -> None:
    document = {**HEAD, "notebook": {"idle_timeout": "1h"}, **more}
    assert not accepts({**document, "gpus": 1, "roles": {"a": {}}})
    del document["command"]
    assert accepts(document)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"gpus": 4, "gpu": 4},
        {"gpus": 4, "roles": {"a": {}}},
        {"gpus": "4"},
        {"gpus": 0},
        {"gpus": None},
        {"gpus": {"min": 0, "max": 2}},
        {"gpus": {"max": 2}},
        {"roles": {"worker": {"tasks": {"min": 1, "max": 2}, "gpus": {"min": 1, "max": 2}}}},
        {"gpus": 4, "version": 2},
        {"gpus": 4, "queue": "default"},
        {"gpus": 4, "queue": "research"},
        {"gpus": 4, "memory_per_gpu": 8},
        {"gpus": 4, "memory_per_gpu": "8gib"},
        {"gpus": 4, "gang": {"hold_timeout": 90}},
        {"gpus": 4, "gang": {"hold_timeout": "30m1h"}},
        {"gpus": 4, "gang": {"hold_timeout": ""}},
        {"gpus": 4, "framework": "keras"},
        {"gpus": 4, "command": []},
        {"gpus": 4, "command": ["ls", None]},
        {"gpus": 4, "command": ["ls", True]},
        {"gpus": 4, "env": {"A": True}},
        {"gpus": 4, "env": {"A-B": "x"}},
        {"gpus": 4, "env": {"A": {"from": "server"}}},
        {"gpus": 4, "files": [{"name": "x"}]},
        {"gpus": 4, "checkpoint": {"keep": 3}},
        {"gpus": 4, "placement": {"gpu_model": "?"}},
        {"gpus": 4, "retry": {"max_restarts": -1}},
        {"roles": {"Worker": {}}},
        {"roles": {}},
        {"roles": {"a": {"tasks": 0}}},
    ],
)
def test_bad_documents(more: dict[str, Any]) -> None:
    """Each is refused by the schema and by the parser."""
    document = {**HEAD, **more}
    assert not accepts(document)
    with pytest.raises(BadSpec):
        parse_spec_text(yaml.safe_dump(document))


def test_every_key_has_a_description() -> None:
    schema = json_schema()
    sections = [schema, *schema["$defs"].values()]
    for section in sections:
        mapping = section.get("anyOf", [section])[-1]
        for key, node in mapping["properties"].items():
            target = schema["$defs"][node["$ref"].rsplit("/", 1)[-1]] if "$ref" in node else node
            assert node.get("description") or target.get("description"), key


def test_refused_keys_are_no_keys() -> None:
    for section in (Document, *_subclasses(Section)):
        names = {field.alias or name for name, field in section.model_fields.items()}
        assert not names & set(section.refused_keys)


def _subclasses(section: type[Section]) -> list[type[Section]]:
    below = [one for one in section.__subclasses__() if one.__module__.startswith("yarnam.spec.")]
    return below + [inner for child in below for inner in _subclasses(child)]


def test_generated_files_are_current() -> None:
    """When this fails: python tools/generate_spec_reference.py"""
    tool = ROOT / "tools/generate_spec_reference.py"
    done = subprocess.run(
        [sys.executable, str(tool), "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_tells_every_key_and_the_real_defaults() -> None:
    page = reference_page()
    for section in (Document, *_subclasses(Section)):
        for name, field in section.model_fields.items():
            assert f"</a>`{field.alias or name}` |" in page
        for key in section.refused_keys:
            assert f"`{key}` (" in page
    assert f"Default: {format_size(MEMORY_PER_GPU_MIB)}." in page
    assert f"cores of a task per GPU. Default: {VCORES_PER_GPU}." in page
    assert f"without GPUs gets 1 vcore and {format_size(MEMORY_WITHOUT_GPU_MIB)}" in page
    for folder in EXCLUDED_FOLDERS:
        assert f"`{folder}`" in page
    anchors = re.findall('<a id="(.*?)">', page)
    assert {"key-queue-placement", "key-gang-hold_timeout"} <= set(anchors)
    assert len(anchors) == len(set(anchors))


def test_the_smallest_job_on_the_page_is_one() -> None:
    text = reference_page().split("The smallest job:")[1].split("```yaml\n")[1].split("```")[0]
    assert parse_spec_text(text).gpus == 2
