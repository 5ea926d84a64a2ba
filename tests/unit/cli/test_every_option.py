"""Each option of each command, once, through the real entry point: none of them is dead."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from tests.unit.cli.test_hostile_text import CASES, COMMANDS, Stage, shell_of, stage
from yarnam.cli.shell import run
from yarnam.errors import ExitCode

__all__ = ["stage"]

ENDLESS = {("cluster logs", "-f"), ("submit", "--watch"), ("queues show", "--watch")}
"""They show until Ctrl-C, or until the job has ended."""

TONY = """<configuration>
<property><name>tony.worker.instances</name><value>2</value></property>
<property><name>tony.worker.memory</name><value>2g</value></property>
<property><name>tony.yarn.queue</name><value>root.dl</value></property>
<property><name>tony.application.framework</name><value>standalone</value></property>
<property><name>tony.containers.command</name><value>true</value></property>
</configuration>"""


def value_of(option: click.Option, folder: Path) -> list[str]:
    """What follows the option on the command line."""
    kind = option.type
    if option.is_flag or option.count:
        return []
    if isinstance(kind, click.Choice):
        first = kind.choices[0]
        return [str(first.value if isinstance(first, enum.Enum) else first)]
    if isinstance(kind, click.IntRange | click.FloatRange):
        return [str(int(kind.min or 0) + 1)]
    if isinstance(kind, click.Path):
        return [str(folder if kind.dir_okay and not kind.file_okay else folder / "given")]
    if kind in (click.INT, click.FLOAT):
        return ["1"]
    return ["1"] * option.nargs


def options(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            for name in (option.opts[0], *option.secondary_opts[:1]):
                yield name, option


WAYS = [
    (name, word)
    for name in CASES
    for word, option in options(COMMANDS[name])
    if (name, word) not in ENDLESS and not option.is_eager
]


@pytest.mark.parametrize(("name", "word"), WAYS, ids=[" ".join(way) for way in WAYS])
def test_no_option_is_a_fault_of_ours(
    stage: Stage, name: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (stage.folder / "given").write_text("x")
    option: Any = dict(options(COMMANDS[name]))[word]
    arguments = [*name.split(), *CASES[name](stage), word, *value_of(option, stage.folder)]
    code = run(arguments, shell_of(stage))
    assert code != ExitCode.INTERNAL, capsys.readouterr().err


def test_a_job_of_another_system_is_submitted_as_it_is_converted(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    job = stage.folder / "tony.xml"
    job.write_text(TONY)
    made = str(stage.folder / "job.yaml")
    arguments = ["import", str(job), "-o", made, "--run", "--executes", "true"]
    assert run(arguments, shell_of(stage)) == 0, capsys.readouterr().err
    assert len(stage.world.launcher.submitted) == 1
    assert "application_" in capsys.readouterr().out
