"""Requirements files: what belongs to them, and which of their lines an installer complains of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from yarnam.errors import BadSpec

MAX_FILES = 100
"""The most files that one requirements file may consist of, including itself."""

_INCLUDE = re.compile(r"^(?:-r|--requirement|-c|--constraint)[\s=]+(\S+)")
_EDITABLE = re.compile(r"^(?:-e|--editable)\b")
_OPTION = re.compile(
    r"^(-i|--index-url|--extra-index-url|-f|--find-links|--no-index|--trusted-host|--no-binary"
    r"|--only-binary|--prefer-binary|--pre)(?:[\s=]+(\S+)|$)"
)
_LOCAL = re.compile(r"^(?:file:(?://)?)?((?:/|\.{1,2}(?:/|$))[^\s;\[]*)")
_NAME = re.compile(r"""(?:^|["'])\s*([A-Za-z0-9][A-Za-z0-9._-]*)""")


@dataclass(frozen=True, slots=True)
class RequirementLine:
    """One line of a file, counted from 1."""

    file: Path
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.file.name}:{self.number}: {self.text}"


def requirement_lines(file: Path) -> list[RequirementLine]:
    """All lines but comments, those of included files too. Raises BadSpec: a file cannot be read,
    or names what the nodes would not have (an editable install, a directory of this machine)."""
    seen: list[Path] = []
    return list(_lines(file.resolve(), seen))


def _lines(file: Path, seen: list[Path]) -> Iterator[RequirementLine]:
    if file in seen:
        return
    seen.append(file)
    if len(seen) > MAX_FILES:
        raise BadSpec(f"{seen[0]} includes more than {MAX_FILES} files")
    for line in plain_lines(file):
        if _EDITABLE.match(line.text):
            raise BadSpec(
                f"{line}: an editable install is a directory of this machine",
                hint="Ship the package with `code:`, and leave the line out.",
            )
        if (found := _LOCAL.match(line.text)) and (seen[0].parent / found[1]).is_dir():
            raise BadSpec(
                f"{line}: a directory's content is not part of the environment",
                hint="Build a wheel and name that, or ship the package with `code:`.",
            )
        yield line
        if include := _INCLUDE.match(line.text):
            yield from _lines((file.parent / include[1]).resolve(), seen)


def option_lines(lines: list[RequirementLine]) -> list[str]:
    """The lines that say where packages come from, with full paths."""
    found = []
    for line in lines:
        if option := _OPTION.match(line.text):
            value = option[2] or ""
            path = line.file.parent / value
            found.append(f"{option[1]} {path if value and path.exists() else value}".rstrip())
    return found


def plain_lines(file: Path) -> list[RequirementLine]:
    """The lines of one file, without comments and empty ones. Raises BadSpec."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSpec(f"cannot read {file}: {error}") from error
    stripped = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [
        RequirementLine(file, number, line) for number, line in stripped if line and line[0] != "#"
    ]


def local_wheels(folder: Path, lines: list[RequirementLine]) -> list[Path]:
    """Wheels and source archives of this machine that the lines name, from ``folder``."""
    found = ((folder / m[1]) for line in lines if (m := _LOCAL.match(line.text)))
    return [path for path in found if path.is_file()]


def lines_named_in(message: str, lines: list[RequirementLine]) -> list[RequirementLine]:
    """The lines whose package an installer's message names, first as they are in the file."""
    words = {normalized(word) for word in re.findall(r"[A-Za-z0-9][A-Za-z0-9._-]*", message)}
    words |= {normalized(re.split(r"[=<>!~]", word)[0]) for word in message.split()}
    return [line for line in lines if (m := _NAME.search(line.text)) and normalized(m[1]) in words]


def normalized(name: str) -> str:
    """PEP 503; a full stop may end a sentence."""
    return re.sub(r"[-_.]+", "-", name.rstrip(".,:;")).lower()
