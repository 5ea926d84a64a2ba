"""Prints how much there is to maintain: lines, keys of the spec, commands. See CONTRIBUTING.md."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import click

from yarnam.cli.catalog import ENTRIES
from yarnam.spec.export.reference_page import reference_page

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("yarnam", "hdfs_utils", "hydra_plugins", "torchx_plugins", "skein_specs")


def lines(*folders: str) -> int:
    files = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sum(path.read_bytes().count(b"\n") for path in files)


def commands(command: click.Command) -> Iterator[click.Command]:
    """The command, or those of the group."""
    if isinstance(command, click.Group):
        for found in command.commands.values():
            yield from commands(found)
    else:
        yield command


def report() -> str:
    keys = sum(line.startswith('| <a id="key-') for line in reference_page().splitlines())
    found = [
        leaf
        for entry in ENTRIES.values()
        for leaf in commands(importlib.import_module(entry.module).command)
    ]
    return (
        f"=== product: {lines(*PRODUCT):,} lines of Python, {keys} keys of the spec, "
        f"{len(found)} commands; tests: {lines('tests'):,} lines"
    )


if __name__ == "__main__":
    print(report())
