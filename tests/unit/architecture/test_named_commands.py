"""Every ``yarnam`` command that a message, a hint or a page names exists, with its sub-command and
its options."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from yarnam.cli.shell import root

ROOT = Path(__file__).parents[3]
COMMANDS = set(root.list_commands(click.Context(root)))

SOURCES = sorted(
    path for folder in ("yarnam", "hydra_plugins", "torchx_plugins")
    for path in (ROOT / folder).rglob("*")
    if path.suffix == ".py" or path.name == "failure_rules.yaml"
)  # fmt: skip
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])

_MENTION = re.compile(r"(?<![\w./-])yarnam((?: +[\w./@:=<>{}\[\],*$-]+)*)")
_SPAN = re.compile(r"(?<!`)`(yarnam [^`]+)`")


@cache
def command(name: str) -> click.Command:
    found = root.get_command(click.Context(root), name)
    assert found is not None
    return found


def fault(words: list[str], *, is_command_line: bool) -> str:
    """Why these words after ``yarnam`` name no command; empty if they do, or are prose."""
    words = [word for word in words if word not in {"-v", "-vv"}]
    if not words or not re.fullmatch(r"[a-z][a-z-]*", words[0]):
        return ""
    first, *rest = words
    if first not in COMMANDS:
        return f"no command {first!r}" if is_command_line else ""
    now = command(first)
    if isinstance(now, click.Group) and rest and re.fullmatch(r"[a-z][a-z-]+", rest[0]):
        inner = now.get_command(click.Context(now), rest[0])
        if inner is None:
            is_default = getattr(now, "default", None) or now.invoke_without_command
            return "" if is_default and is_command_line else f"no command '{first} {rest[0]}'"
        now, rest = inner, rest[1:]
    if not is_command_line:
        return ""
    known = {opt for param in now.params for opt in (*param.opts, *param.secondary_opts)}
    for word in rest:
        name = word.partition("=")[0]
        if re.fullmatch(r"--[a-z][a-z-]*", name) and name not in known | {"--help", "--"}:
            return f"'yarnam {first}' has no option {name}"
        if name == "--":
            break
    return ""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    if path.suffix != ".py":
        yield from enumerate(path.read_text().splitlines(), 1)
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_messages_name_commands_that_exist() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {why}: {text.strip()[:100]}"
        for path in SOURCES
        for line, text in texts(path)
        for mention in _MENTION.finditer(text)
        if (why := fault(mention[1].split(), is_command_line=False))
    ]
    assert found == []


def command_lines(text: str) -> Iterator[str]:
    """Code spans that begin with ``yarnam``, and such lines of blocks for a shell."""
    yield from (span[1] for span in _SPAN.finditer(re.sub(r"```.*?```", "", text, flags=re.S)))
    for block in re.findall(r"```(?:sh|console|bash)\n(.*?)```", text, re.S):
        for line in block.replace("\\\n", " ").splitlines():
            stripped = line.strip().removeprefix("$ ")
            if stripped.startswith("yarnam "):
                yield stripped


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_names_commands_and_options_that_exist(path: Path) -> None:
    found = []
    for line in command_lines(path.read_text()):
        line = re.split(r"\s(?:#|\||&&|;|>|2>)", line)[0]
        try:
            words = shlex.split(line)[1:]
        except ValueError:
            words = line.split()[1:]
        if why := fault(words, is_command_line=True):
            found.append(f"{why}: {line}")
    assert found == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ckpt list", "no command 'ckpt list'"),
        ("ckpt ls DIR", ""),
        ("frobnicate", "no command 'frobnicate'"),
        ("status --colour", "'yarnam status' has no option --colour"),
        ("status JOB --json", ""),
    ],
)
def test_the_test_finds_a_name_that_is_wrong(words: str, expected: str) -> None:
    assert fault(words.split(), is_command_line=True) == expected
