"""What is printed goes through ``yarnam.cli.rendering.console``, and what is logged through
``yarnam.cli.log_format``: they escape text of others, and no other place has to think of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("yarnam", "hdfs_utils", "skein_specs", "hydra_plugins", "torchx_plugins")

PRINTERS = {
    "yarnam/cli/rendering/console.py": "the printer",
    "yarnam/cli/log_format.py": "the printer of logs",
    "yarnam/cli/containers/agent_process.py": "the agent's stderr, without the CLI's library",
    "yarnam/agent/entrypoint.py": "the agent's stderr, without the CLI's library",
    "yarnam/agent/keeper/keeper.py": "the numbers of processes, from a process that loads nothing",
    "yarnam/cluster/reporters.py": "progress of the embedded cluster, for Python callers too",
    "yarnam/cluster/hadoop/datanode_relay.py": "addresses of ours, to the log of its process",
    "yarnam/cluster/terminal_display.py": "the same on a terminal",
    "yarnam/client/functions/call_program.py": "stands alone in the user's process; its traceback",
    "yarnam/client/functions/packed_calls.py": "runs in the user's process; its traceback",
    "yarnam/train/_inputs/inputs.py": "stands alone in the user's process; an input of the spec",
    "yarnam/agent/programs/file_copy.py": "stands alone in the task; the client prints it",
    "yarnam/agent/programs/strangers.py": "stands alone beside the user's command, to its log",
    "yarnam/agent/data/mirror_process.py": "to the agent, which logs it and shows it in the status",
    "yarnam/agent/data/checkpoint_trial.py": "to the agent, which shows it as a log of the process",
    "yarnam/agent/data/am_lookup.py": "to the agent, which checks it",
    "yarnam/cli/containers/token_process.py": "to the AM, which logs what failed",
    "yarnam/train/_job/pre_run_end.py": "stands alone in the user's process; a number",
    "yarnam/train/_reports/reporting.py": "stands alone in the user's process; a number",
    "yarnam/train/_tracking/tracking.py": "stands alone in the user's process: its log",
    "yarnam/train/_reports/skipped_records.py": "stands alone in the user's process: its log",
    "hdfs_utils/transfer/progress_bar.py": "stands alone; figures and labels of the caller",
    "hdfs_utils/checkpoints/memory/memory_holder.py": "stands alone; names in it are checked",
    "hdfs_utils/checkpoints/orphaned_spools.py": "stands alone; the program of the keeper",
}
"""Each with its reason. Those that show text of others call ``printable`` themselves."""

PRINTING = {
    "print", "click.echo", "click.secho", "click.echo_via_pager", "click.confirm", "click.prompt",
    "click.pause", "click.progressbar", "rich.print", "Console", "rich.console.Console",
    "logging.basicConfig", "logging.Formatter", "logging.captureWarnings",
}  # fmt: skip
STREAMS = {"sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
ALLOWED_IMPORTS = {"rich.console.Console"}
"""For annotations; the call is refused."""
QUESTIONS = {"encoding", "fileno", "flush", "isatty"}
"""Of a stream, what prints nothing."""
ASKERS = {"has_colour", "is_terminal"}
"""Functions that are asked about a stream."""


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "pb" not in path.parts:
                yield path


def printing(source: str) -> list[str]:
    """What in a module prints by itself."""
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute() | ast.Name():
                name = dotted(node)
                above = parents[node]
                is_called = isinstance(above, ast.Call) and above.func is node
                if is_called and (name in PRINTING or name.endswith(".Console")):
                    found.append(name)
                if name in STREAMS and not _is_question(above):
                    found.append(name)
            case ast.ImportFrom(module=str() as module):
                names = [f"{module}.{alias.name}" for alias in node.names]
                found += [name for name in names if name in (PRINTING | STREAMS) - ALLOWED_IMPORTS]
    return found


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _is_question(above: ast.AST) -> bool:
    match above:
        case ast.Attribute(attr=attribute):
            return attribute in QUESTIONS
        case ast.Call(func=ast.Name(id=name)):
            return name in ASKERS
    return False


@pytest.mark.parametrize(
    "line",
    [
        "print(path)",
        "click.echo(path)",
        "click.secho(path, err=True)",
        "click.confirm(path)",
        "sys.stdout.write(path)",
        "sys.stderr.buffer.write(path)",
        "stream = sys.stderr",
        "from sys import stdout",
        "from click import echo",
        "from rich import print",
        "Console(stderr=True)",
        "rich_console.Console()",
        "logging.basicConfig(level=10)",
        "handler.setFormatter(logging.Formatter('%(message)s'))",
    ],
)
def test_what_prints_by_itself_is_refused(line: str) -> None:
    assert printing(line)


@pytest.mark.parametrize(
    "line",
    [
        "sys.stdout.flush()",
        "if is_terminal(sys.stderr): pass",
        "print_line(path)",
        "from rich.console import Console, Group",
        "from rich import table",
        "fingerprint = self.print(path)",
    ],
)
def test_what_prints_nothing_is_not(line: str) -> None:
    assert not printing(line)


def test_nothing_else_prints() -> None:
    found = {str(path.relative_to(ROOT)): printing(path.read_text()) for path in modules()}
    assert {name: what for name, what in found.items() if what and name not in PRINTERS} == {}
    assert [name for name in PRINTERS if not found.get(name)] == [], "no longer a printer: remove"
