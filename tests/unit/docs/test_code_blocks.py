"""What README, tutorial and how-to pages show is true: specs, commands, Python."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from tests.unit.docs.pages import ROOT, Block, blocks
from yarnam.cli.shell import root
from yarnam.cluster.shape import shape_from_mapping
from yarnam.errors import BadSpec
from yarnam.spec import parse_spec_dict, parse_spec_text

SPECS = blocks("yaml")
TUTORIAL = ROOT / "docs" / "tutorial" / "first-job.md"
# Pages show parts of a spec; the rest that makes it whole.
REST = {"version": 1, "name": "shown", "queue": "root.dl", "command": ["true"]}
SIZE = {"gpus": 1}
EXPORTED = {
    "SLACK_WEBHOOK": "https://hooks.slack.com/services/x",
    "MAIL_SERVER": "smtps://robot:password@mail.example.com",
}
"""What a page exports before it submits."""


def whole(fragment: dict[str, object]) -> dict[str, object]:
    size = {} if {"roles", "gpus"} & set(fragment) else SIZE
    return {**REST, **size, **fragment}


@pytest.mark.parametrize("block", SPECS, ids=str)
def test_a_yaml_block_is_valid(block: Block, tmp_path: Path) -> None:
    plain = yaml.safe_load(block.text)
    if plain is None:  # only a comment, as for editors
        return
    if "racks" in plain:  # the shape of an embedded cluster
        shape_from_mapping(plain)
    elif "version" in plain:
        parse_spec_text(block.text, base_dir=tmp_path, check_paths=False)
    else:
        # An administrator's file of failure rules is `retry.rules` of all jobs.
        fragment = {"retry": plain} if set(plain) == {"rules"} else plain
        parse_spec_dict(
            whole(fragment),
            base_dir=tmp_path,
            check_paths=False,
            environ={**os.environ, **EXPORTED},
        )


def test_a_wrong_spec_would_be_noticed(tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="unknown key"):
        parse_spec_dict(whole({"checkpiont": {}}), base_dir=tmp_path, check_paths=False)


COMMANDS = [
    (block, line.strip())
    for block in blocks("sh", "bash")
    for line in block.text.splitlines()
    if line.strip() and not line.lstrip().startswith("#")
]


def yarnam_commands(line: str) -> list[list[str]]:
    """The calls of yarnam in a shell line, also inside ``$(...)``."""
    inner = re.findall(r"\$\((yarnam [^)]*)\)", line)
    outer = [] if inner else re.split(r"\|\||&&|[|;]", line)
    calls = [shlex.split(part, comments=True) for part in (*inner, *outer)]
    return [call[1:] for call in calls if call and call[0] == "yarnam"]


def check_call(command: click.Command, name: str, args: list[str]) -> None:
    """Raises click.UsageError for a command or option that does not exist."""
    context = click.Context(command, info_name=name)
    has_own = isinstance(command, click.Group) and command.invoke_without_command
    if isinstance(command, click.Group) and args and not (has_own and args[0].startswith("-")):
        sub = command.get_command(context, args[0])
        if sub is None:
            raise click.UsageError(f"no command {args[0]!r} in {name!r}")
        check_call(sub, args[0], args[1:])
    else:
        # The parser alone: whether files exist is of no interest here.
        command.make_parser(context).parse_args(list(args))


@pytest.mark.parametrize(
    ("block", "line"), COMMANDS, ids=[f"{block}: {line}" for block, line in COMMANDS]
)
def test_a_command_exists(block: Block, line: str) -> None:
    for call in yarnam_commands(line):
        check_call(root, "yarnam", call)
    for target in re.findall(r"\bmake (?:[A-Z]+=\S+ )?([a-z-]+)", line):
        assert target in make_targets(), line


@pytest.mark.parametrize(
    "call",
    [["sumbit"], ["submit", "--wacth"], ["cluster", "upp"], ["cluster", "up", "--node", "x"]],
)
def test_a_wrong_command_would_be_noticed(call: list[str]) -> None:
    with pytest.raises(click.ClickException):
        check_call(root, "yarnam", call)


def make_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text()
    return set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))


def test_every_make_target_that_prose_names_exists() -> None:
    prose = "\n".join(path.read_text() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    named = set(re.findall(r"`make (?:[A-Z]+=\S+ )?([a-z-]+)", prose))
    assert named <= make_targets()
    assert {"demo", "test"} <= named


PYTHON = blocks("python")


def import_submodule(name: str) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "torch":  # it need not be installed here
            raise


FRAMEWORKS = {"torch", "sklearn"}


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_compiles_and_its_names_exist(block: Block) -> None:
    tree = ast.parse(block.text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and _packages(node) <= FRAMEWORKS:
            continue  # They need not be installed here; `make frameworks` runs the page.
        if isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    import_submodule(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)


def _packages(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").partition(".")[0]}
    return {alias.name.partition(".")[0] for alias in node.names}


def run_python(text: str, folder: Path) -> str:
    script = folder / "shown.py"
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tutorials_script_runs_outside_a_job(tmp_path: Path) -> None:
    (script,) = (block for block in blocks("python", pages=[TUTORIAL]) if block.file == "train.py")
    output = run_python(script.text.replace("time.sleep(0.2)", "time.sleep(0)"), tmp_path)
    assert output.splitlines() == [f"step {step}: 1 processes" for step in (20, 40, 60)]


def test_the_checkpoint_example_goes_on_where_it_stopped(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "checkpoints.md"
    (text,) = (
        block.text for block in blocks("python", pages=[page]) if "range(first, 100)" in block.text
    )
    text = text.replace("file:///tmp/checkpoints", f"file://{tmp_path}/checkpoints")
    run_python(text.replace("range(first, 100)", "range(first, 60)"), tmp_path)
    output = run_python(text + "\nprint(first, weights[0])\n", tmp_path)
    # 50 was the last checkpoint of the first run.
    assert output.split() == ["50", "100.0"]


def test_the_example_of_parts_runs_twice(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "checkpoints.md"
    (text,) = (block.text for block in blocks("python", pages=[page]) if "Part(mine" in block.text)
    text = text.replace("file:///tmp/sharded", f"file://{tmp_path}/sharded")
    run_python(text, tmp_path)
    output = run_python(text + "\nprint(found[0].step, found[1].shape)\n", tmp_path)
    assert output == "1 (1000, 64)\n"


def test_the_tutorials_mistake_gives_the_message_it_shows(tmp_path: Path) -> None:
    page = TUTORIAL.read_text()
    shown = re.findall(r"^job\.yaml:.*unknown key.*$", page, re.MULTILINE)
    spec = [block for block in blocks("yaml", pages=[TUTORIAL]) if block.file == "job.yaml"][-1]
    with pytest.raises(BadSpec) as refused:
        parse_spec_text(
            spec.text.replace("gpus: 2", "gpu: 2"),
            source="job.yaml",
            base_dir=tmp_path,
            check_paths=False,
        )
    assert [refused.value.message] == shown
