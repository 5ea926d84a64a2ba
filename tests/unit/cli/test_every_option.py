"""Each option of each command, once, through the real entry point: none of them is dead."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from tests.fakes.cluster_view import cluster
from tests.unit.cli.test_hostile_text import CASES, COMMANDS, Stage, shell_of, stage
from yarnam.cli.shell import run
from yarnam.client.planning.snapshot_file import save_snapshot
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


ALLOCATIONS = "<allocations><queue name='a'/></allocations>"

VALUES = {
    "--since": "7d",
    "--until": "2026-11-22",
    "--for": "1s",
    "--deadline": "30min",
    "--drain": "30min",
    "--timeout": "5s",
    "--unused-for": "1d",
    "--by": "queue",
    "--every": "1h",
    "--encoding": "utf-8",
    "--check": ".bin=json:loads",
    "--schema": "a:integer",
    "--quota": "root.other=1",
    "--trace": "{folder}/trace.json",
    "--allocation": "{folder}/queues.xml",
    "--baseline": "{folder}/queues.xml",
    "--cluster": "{folder}/nodes.json",
    "--snapshot": "{folder}/nodes.json",
    "--to": "{folder}/made",
    "-o": "{folder}/made",
    "--state-file": "{folder}/alerts.json",
    "--conf": "tony.worker.memory=4g",
    "--shell-env": "A=1",
}
"""Values of options whose form no type of click's says."""

ALSO = {
    ("queues lint", "--fix"): ["-o", "{folder}/mended.xml"],
    ("queues lint", "-o"): ["--fix"],
    ("import", "--run"): ["-o", "{folder}/job.made"],
    ("explain", "--exit-code"): ["--log", "{folder}/given"],
    ("explain", "--log"): ["--exit-code", "1"],
}
"""Options that need another one."""

INSTEAD = {
    "import": ["{folder}/tony.xml", "--executes", "true"],
    "explain": [],
    "queues diff": ["{folder}/queues.xml", "{folder}/queues.xml"],
    "queues convert": ["{folder}/queues.xml", "--cluster", "{folder}/nodes.json"],
    "queues apply": ["{folder}/queues.xml", "--dry-run"],
}
"""Arguments of commands whose case in ``test_hostile_text`` ends before it looks at an option."""

REFUSED = {
    ("queues show", "--node-label"): "no node has the label",
    ("queues why", "--node-label"): "no node has the label",
    ("history show", "-u"): "the history has no job",
    ("queues undo", "--to"): "cannot read",
    ("queues undo", "--dry-run"): "changed by other means",
    ("queues undo", "--json"): "changed by other means",
    ("tensorboard", "--logdir"): "is not a directory on HDFS",
    ("tensorboard", "--json"): "file:///",
    ("tensorboard", "-p"): "file:///",
    ("kill", "--array"): "is not the id of an array",
    ("ps", "--array"): "is not the id of an array",
    ("exec", "--task"): "there is no task 1",
    ("exec", "-t"): "standard input is not a terminal",
    ("port-forward", "--task"): "there is no task 1",
    ("cp", "--task"): "there is no task 1",
    **{
        ("notebook", option): "the job has that already"
        for option in ("--gpus", "--environment", "--vscode", "-q", "-n")
    },
    ("scale", "--json"): "can have 1 to 3",
    ("policy cells", "--quota"): "there is no leaf queue",
}
"""Options that only a cluster, or a job of another kind, can answer, and how they are refused."""


def value_of(option: click.Option, folder: Path) -> list[str]:
    """What follows the option on the command line."""
    kind = option.type
    known = [VALUES[word] for word in option.opts if word in VALUES]
    is_number = isinstance(kind, click.IntRange | click.FloatRange)
    if known and not option.is_flag and not is_number:
        return known[:1]
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


def arguments_of(stage: Stage, name: str, word: str) -> list[str]:
    option: Any = dict(options(COMMANDS[name]))[word]
    given = CASES[name](stage)
    value = value_of(option, stage.folder)
    if name in INSTEAD and not (name == "explain" and (name, word) not in ALSO):
        given = INSTEAD[name]
    if (name, word) == ("import", "--conf-file"):
        given, value = given[1:], [f"{stage.folder}/tony.xml"]
    words = [*given, *ALSO.get((name, word), []), word, *value]
    return [*name.split(), *(one.replace("{folder}", str(stage.folder)) for one in words)]


@pytest.mark.parametrize(("name", "word"), WAYS, ids=[" ".join(way) for way in WAYS])
def test_no_option_is_a_fault_of_ours(
    stage: Stage, name: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own code runs: a usage error would end the command before that."""
    (stage.folder / "given").write_text("x")
    (stage.folder / "tony.xml").write_text(TONY)
    (stage.folder / "queues.xml").write_text(ALLOCATIONS)
    save_snapshot(cluster(nodes=1), str(stage.folder / "nodes.json"))
    code = run(arguments_of(stage, name, word), shell_of(stage))
    shown = capsys.readouterr().err
    assert code != ExitCode.INTERNAL, shown
    refused = REFUSED.get((name, word))
    assert (code == ExitCode.USAGE) == (refused is not None), shown
    assert refused is None or refused in shown


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
