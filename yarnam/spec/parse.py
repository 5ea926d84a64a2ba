"""From a file, a text or a mapping to a checked JobSpec."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from yarnam.errors import BadSpec, SpecProblem
from yarnam.model.job import JobSpec
from yarnam.spec.build import Surroundings, build
from yarnam.spec.checks import check
from yarnam.spec.document import Document
from yarnam.spec.elastic_checks import check_elastic
from yarnam.spec.placement_checks import check_placement
from yarnam.spec.problems import examples_at, report
from yarnam.spec.tree import MAX_BYTES, STAND_IN, Path, Tree, tree_from_mapping, tree_from_text

MAX_SHOWN = 50
"""Problems listed in a message; ``BadSpec.problems`` has all of them."""

_MENDING_ROUNDS = 5


def parse_spec_file(
    path: str | os.PathLike[str],
    *,
    user: str = "",
    environ: Mapping[str, str] | None = None,
    check_paths: bool = True,
) -> JobSpec:
    """Read a spec file. Relative paths in it start at its directory.

    ``environ`` stands for the submitting environment (``{from: client}``); default: this
    process's. ``check_paths`` looks whether local files to ship exist. Raises BadSpec with every
    problem of the file, in file order.
    """
    file = FilePath(path)
    text = _read(file)
    base = file.parent
    return parse_spec_text(
        text, str(file), base_dir=base, user=user, environ=environ, check_paths=check_paths
    )


def parse_spec_text(
    text: str,
    source: str = "<string>",
    *,
    base_dir: str | os.PathLike[str] = ".",
    user: str = "",
    environ: Mapping[str, str] | None = None,
    check_paths: bool = True,
) -> JobSpec:
    """The same from a text; ``source`` names it in messages."""
    surroundings = _surroundings(base_dir, user, environ, check_paths)
    return _parse(tree_from_text(text, source), surroundings)


def parse_spec_dict(
    mapping: Mapping[str, Any],
    *,
    base_dir: str | os.PathLike[str] = ".",
    source: str = "spec",
    user: str = "",
    environ: Mapping[str, str] | None = None,
    check_paths: bool = True,
) -> JobSpec:
    """The same from Python values; messages name keys, but no lines."""
    surroundings = _surroundings(base_dir, user, environ, check_paths)
    return _parse(tree_from_mapping(mapping, source), surroundings)


def _surroundings(
    base_dir: str | os.PathLike[str],
    user: str,
    environ: Mapping[str, str] | None,
    check_paths: bool,
) -> Surroundings:
    return Surroundings(
        base_dir=FilePath(base_dir).absolute(),
        user=user,
        environ=os.environ if environ is None else environ,
        check_paths=check_paths,
    )


def _parse(tree: Tree, surroundings: Surroundings) -> JobSpec:
    document = None
    if isinstance(tree.value, dict):
        document = _validate(tree)
    if document is not None:
        check(document, tree)
        check_elastic(document, tree)
        check_placement(document, tree)
        job = build(document, tree, surroundings)
        if not tree.problems:
            return job
    raise bad_spec(tree)


def bad_spec(tree: Tree) -> BadSpec:
    """One error with a line for each problem."""
    problems = tree.sorted_problems()
    lines = [str(problem) for problem in problems[:MAX_SHOWN]]
    if len(problems) > MAX_SHOWN:
        lines.append(f"{tree.source}: and {len(problems) - MAX_SHOWN} more problems")
    return BadSpec("\n".join(lines), problems=problems)


def _validate(tree: Tree) -> Document | None:
    """The document; with problems, one in which stand-ins replace what is wrong, so that the
    other checks can run. None when even that cannot be had."""
    value = _copied(tree.value)
    for round_number in range(_MENDING_ROUNDS):
        try:
            return Document.model_validate(value)
        except ValidationError as error:
            # The error quotes values, which may be secrets: it is neither chained nor shown.
            broken = report(tree, error.errors(include_url=False), is_first=round_number == 0)
        for path in broken:
            _mend(value, path)
    return None


def _copied(value: Any) -> Any:
    """Containers anew, scalars as they are: they remember how they were written."""
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _mend(value: Any, path: Path) -> None:
    """Take out the key at ``path``, put a stand-in for the item there, or put an example in where
    a key is missing."""
    for part in path[:-1]:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return
    last = path[-1] if path else ""
    if isinstance(value, list) and isinstance(last, int):
        value[last] = STAND_IN
    elif isinstance(value, dict) and last in value:
        del value[last]
    elif isinstance(value, dict):
        _put_example(value, path)


def _put_example(value: dict[str, Any], path: Path) -> None:
    value[str(path[-1])] = (examples_at(path) or [STAND_IN])[0]


def _unreadable(source: str, message: str, hint: str = "") -> BadSpec:
    problem = SpecProblem(source, 0, 0, "", message)
    return BadSpec(str(problem), hint=hint, problems=(problem,))


def _read(file: FilePath) -> str:
    source = str(file)
    try:
        if file.is_dir():
            raise _unreadable(source, "is a directory; give the spec file in it")
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        hint = "`yarnam spec init -o job.yaml` writes a starter."
        raise _unreadable(source, "no such file", hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(source, f"cannot be read: {reason}") from error
    if len(data) > MAX_BYTES:
        raise _unreadable(source, "larger than 1 MiB: this is not a job spec")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_utf8(source, data, error.start) from error


def _not_utf8(source: str, data: bytes, start: int) -> BadSpec:
    before = data[:start]
    line = before.count(b"\n") + 1
    column = start - (before.rfind(b"\n") + 1) + 1
    is_utf16 = data[:2] in {b"\xff\xfe", b"\xfe\xff"}
    what = "UTF-16" if is_utf16 else f"byte 0x{data[start]:02x}"
    problem = SpecProblem(source, line, column, "", f"not UTF-8 ({what}); save it as UTF-8")
    return BadSpec(str(problem), problems=(problem,))
