"""No text of a foreign job puts a key into the spec that is written of it."""

from __future__ import annotations

import string
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from hdfs_utils.config import configuration
from yarnam.cli.shell import run
from yarnam.errors import ExitCode
from yarnam.spec.importers import openpai, tony
from yarnam.spec.importers.conversion import Conversion

BREAKS = ("\n", "\r", "\x85", "\u2028", "\u2029", "\t")
"""What XML can have of what ends a line somewhere."""
YAML = (
    *BREAKS,
    *("env: {LD_PRELOAD: /x.so}", "env:", "- ", "? ", ": ", "#", " #", "---", "...", "%YAML 1.1"),
    *("&a", "*a", "<<: *a", "!!python/name:os.system ", "{", "}", "[", "]", "|", ">", "'", '"'),
    *("null", "~", "yes", "1_0", "0x1", "2001-01-01", "\ufeff", "\\", "${A}", "A=1", ",", "::"),
)
ALLOWED = st.characters(exclude_categories=("Cs", "Cc", "Cn"))
HOSTILE = st.lists(st.one_of(st.sampled_from(YAML), st.text(ALLOWED, max_size=8)), max_size=6).map(
    "".join
)
KEYS = (
    *("tony.application.name", "tony.yarn.queue", "tony.containers.command", "tony.worker.command"),
    *("tony.containers.envs", "tony.execution.envs", "tony.containers.resources"),
    *("tony.application.node-label", "tony.worker.node-label", "tony.application.tags"),
    *("tony.python-exec-path", "tony.application.framework", "tony.docker.containers.image"),
    *("tony.docker.containers.mount", "tony.docker.enabled", "tony.application.prepare-stage"),
    *("tony.application.group.A", "tony.application.dependency.worker.timeout.after.A"),
)
NAMES = st.one_of(
    st.sampled_from(KEYS),
    HOSTILE,
    HOSTILE.map("tony.history.{}".format),
    HOSTILE.map("tony.application.group.{}".format),
    HOSTILE.map("tony.{}.instances".format),
)
BASE = {"tony.worker.instances": "2", "tony.containers.command": "train"}


def quoted(text: str) -> str:
    return "".join(
        one if one in string.ascii_letters + string.digits + ".-" else f"&#{ord(one)};"
        for one in text
    )


def xml(properties: dict[str, str]) -> str:
    rows = (
        f"<property><name>{quoted(name)}</name><value>{quoted(value)}</value></property>"
        for name, value in properties.items()
    )
    return f"<configuration>{''.join(rows)}</configuration>"


def check_written(name: str, content: str, convert: Callable[[Path], Conversion]) -> None:
    """What is read back of the written spec is what was converted, and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        file, output = Path(folder, name), Path(folder, "job.yaml")
        file.write_text(content, encoding="utf-8")
        code = run(["import", str(file), "-o", str(output)])
        assert code in (ExitCode.OK, ExitCode.BAD_SPEC)
        if code == ExitCode.OK:
            expected = convert(file)
            text = output.read_bytes().decode()
            check_head(text, expected)
            check(yaml.safe_load(text), expected.spec)


def check_head(text: str, expected: Conversion) -> None:
    length = 2 + len(expected.dropped) if expected.dropped else 1
    rows = text.splitlines()
    assert [row.startswith("#") for row in rows[: length + 1]] == [True] * length + [False]


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else type(value)


LOCAL = ("files", "code", "environment")
"""Paths in them are made relative to the spec, which may need a ``name``."""


def check(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    for file in (*spec.get("files", ()), *expected.get("files", ())):
        file.pop("name", None)
    for key in LOCAL:
        assert shape(spec.pop(key, None)) == shape(expected.pop(key, None))
    assert spec == expected


def as_hadoop_reads_it(file: Path) -> dict[str, str]:
    return configuration.load(file.parent, {}, (file.name,))


@given(st.dictionaries(NAMES, HOSTILE, max_size=8))
@example({f"tony.history.a{one}env: {{A: b}}{one}#": "1" for one in BREAKS})
@example({"tony.containers.command": "a\nenv: {A: b}\n---\nenv: {A: b}", "tony.x.instances": "0"})
def test_no_property_of_tony_is_a_key(properties: dict[str, str]) -> None:
    made = {**BASE, **properties}
    check_written("tony.xml", xml(made), lambda file: tony.convert(as_hadoop_reads_it(file)))


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_no_text_of_openpai_is_a_key(name: str, uri: str, command: str, cell: str) -> None:
    resources = {"cpu": 1, "memoryMB": 1024, "gpu": 0}
    worker = {"instances": 1, "dockerImage": "img", "commands": [command or "train"]}
    document = {
        "protocolVersion": 2,
        "name": name,
        "type": "job",
        "prerequisites": [{"type": "dockerimage", "name": "img", "uri": uri}],
        "taskRoles": {"worker": {**worker, "resourcePerInstance": resources}},
        "extras": {"hivedScheduler": {"taskRoles": {"worker": {"pinnedCellId": cell}}}},
    }
    text = yaml.safe_dump(document)
    check_written("job.pai", text, lambda file: openpai.convert(document, str(file)))
