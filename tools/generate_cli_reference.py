"""Writes docs/reference/cli.md from the commands and docs/reference/exit-codes.md from the errors.

``python tools/generate_cli_reference.py`` writes; with ``--check`` it only compares, and fails when
a page is behind.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from yarnam.cli.catalog import SECTIONS
from yarnam.cli.shell import root
from yarnam.errors import ExitCode, error_classes

PAGES = Path(__file__).resolve().parents[1] / "docs" / "reference"
GENERATED = "<!-- Written by tools/generate_cli_reference.py: do not edit. -->"

CLI_HEAD = """# Command line

{generated}

```
yarnam [-v] COMMAND ...
```

{summary}

Common to all commands:

- `--json` prints one JSON document on standard output (`watch` and `logs`: one per line). A failed
  command prints `{{"error": {{"name", "exit_code", "blame", "retryable", "message", "hint"}}}}`.
- Results go to standard output, progress and errors to standard error. Colours and live views
  appear on a terminal only; `NO_COLOR` turns colours off.
- Names, paths and messages that others wrote are printed with escapes, as in `\\x1b` or `\\u202e`,
  for control characters and for characters that are invisible or change the direction of text. In
  JSON these are JSON's own escapes, so programs read the exact values. `logs` passes colours to a
  terminal, and to a pipe or file every byte as the process wrote it.
- `-v` logs to standard error, `-vv` more of it.
- [Exit codes](exit-codes.md) tell who has to act.
- JOB is an application id, the start of a job's name, or `last`. A name means its one unfinished
  job, or its newest one if all have finished.
- The cluster is that of `HADOOP_CONF_DIR`, or of `HADOOP_HOME/etc/hadoop`.
"""

CODES_HEAD = """# Exit codes

{generated}

`yarnam` exits with one of these codes. With `submit --watch` and `watch` it is the job's verdict;
for all other commands it is the result of the command itself. 64 to 78 mean what `sysexits.h`
defines; no code collides with the shell's (126 and up) or Skein's (10 to 12).

| code | name | blame | retry? | meaning |
|---|---|---|---|---|
"""

CODES_TAIL = """
`yarnam` also exits with 130 after Ctrl-C (`watch` and `submit --watch` do not stop the job), and
with 141 when the reader of its output closes the pipe.

*Blame* names who has to act: the **user** (the spec, the code, the request), the
**platform** (yarnam itself or the cluster's rules) or the **infra**structure (nodes, HDFS, YARN).
*Retry* is yes if the same command may succeed later without a change.

In Python the same codes are `yarnam.errors.ExitCode`; every error is a `yarnam.errors.YarnamError`
with `exit_code`, `blame`, `retryable`, `message` and `hint`. `Job.wait()` returns the verdict with
its code; `Job.wait(raise_on_failure=True)` raises it.
"""


def cli_page() -> str:
    """The whole page on the commands."""
    head = CLI_HEAD.format(generated=GENERATED, summary=inspect.cleandoc(root.help or ""))
    parts = [head]
    for title, entries in SECTIONS.items():
        parts.append(f"## {title}\n")
        for entry in entries:
            command: click.Command = importlib.import_module(entry.module).command
            parts += _command(command, f"yarnam {entry.name}", "###")
    return "\n".join(parts).rstrip() + "\n"


def exit_codes_page() -> str:
    """The whole page on the exit codes."""
    rows = [f"| 0 | `{ExitCode.OK.name}` | | | success |"]
    for kind in sorted(error_classes(), key=lambda kind: kind.exit_code):
        meaning = _first_paragraph(kind.__doc__ or "").rstrip(".")
        retry = "yes" if kind.retryable else "no"
        rows.append(
            f"| {int(kind.exit_code)} | `{kind.exit_code.name}` | {kind.blame.value} "
            f"| {retry} | {meaning} |"
        )
    return CODES_HEAD.format(generated=GENERATED) + "\n".join(rows) + "\n" + CODES_TAIL


def _command(command: click.Command, path: str, heading: str) -> Iterator[str]:
    context = click.Context(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"{heading} {path}\n"
    yield f"```\n{path} {usage}\n```\n"
    yield _prose(command.help or "") + "\n"
    rows = [
        record
        for parameter in command.params
        if isinstance(parameter, click.Option)
        and (record := parameter.get_help_record(context)) is not None
    ]
    if rows:
        yield "| option | |\n|---|---|"
        for options, text in rows:
            yield f"| `{_escaped(options)}` | {_escaped(text)} |"
        yield ""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _command(below, f"{path} {name}", heading + "#")


def _prose(text: str) -> str:
    # \b marks a paragraph that click must not wrap.
    return inspect.cleandoc(text.replace("\b", "")).strip()


def _first_paragraph(text: str) -> str:
    return re.sub(r"\s+", " ", inspect.cleandoc(text).split("\n\n")[0])


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> int:
    pages = {PAGES / "cli.md": cli_page(), PAGES / "exit-codes.md": exit_codes_page()}
    if "--check" in sys.argv[1:]:
        behind = [page.name for page, text in pages.items() if page.read_text() != text]
        for name in behind:
            print(f"{name} is behind the code: run python tools/generate_cli_reference.py")
        return 1 if behind else 0
    for page, text in pages.items():
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
