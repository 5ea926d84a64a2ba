"""Reads a job spec from a file, a text or a mapping into a checked JobSpec."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from yarnam.core.model.job_spec import JobSpec
from yarnam.errors import BadSpec, SpecProblem
from yarnam.spec import yaml_tree
from yarnam.spec.checks import check
from yarnam.spec.job_builder import LoadContext, build
from yarnam.spec.problems import examples_at, report
from yarnam.spec.role_checks import check_roles
from yarnam.spec.sections.document import Document

MAX_SHOWN = 50
"""Problems listed in one message; ``BadSpec.problems`` has all."""

_MENDING_ROUNDS = 5


def parse_spec_file(
    path: str | os.PathLike[str], *, user: str = "", environ: Mapping[str, str] = os.environ
) -> JobSpec:
    """Read a spec file. Relative paths in it are relative to its directory. ``environ`` is the
    submitting environment (``{from: client}``), by default this process's. Raises BadSpec with
    every problem of the file, in file order."""
    file = FilePath(path)
    return parse_spec_text(_read(file), str(file), base_dir=file.parent, user=user, environ=environ)


def parse_spec_text(
    text: str,
    source: str = "<string>",
    *,
    base_dir: str | os.PathLike[str] = ".",
    user: str = "",
    environ: Mapping[str, str] = os.environ,
    check_paths: bool = True,
) -> JobSpec:
    """Read a spec from YAML text; ``source`` names it in messages. With ``check_paths`` the local
    files to ship must exist."""
    context = LoadContext(FilePath(base_dir).absolute(), user, environ, check_paths)
    return _parse(yaml_tree.tree_from_text(text, source), context)


def place_of(spec: str | os.PathLike[str], key: str) -> str:
    """``job.yaml:12:3``, where this key stands in a spec file or text (one with a newline). Raises
    BadSpec."""
    is_text = isinstance(spec, str) and "\n" in spec
    text, source = (str(spec), "<string>") if is_text else (_read(FilePath(spec)), str(spec))
    line, column = yaml_tree.tree_from_text(text, source).position(tuple(key.split(".")))
    return f"{source}:{line}:{column}"


def parse_spec_dict(
    mapping: Mapping[str, Any],
    *,
    base_dir: str | os.PathLike[str] = ".",
    user: str = "",
    environ: Mapping[str, str] = os.environ,
    check_paths: bool = True,
) -> JobSpec:
    """Read a spec from Python values; messages name keys, but no lines."""
    context = LoadContext(FilePath(base_dir).absolute(), user, environ, check_paths)
    return _parse(yaml_tree.tree_from_mapping(mapping, "spec"), context)


def _parse(tree: yaml_tree.Tree, context: LoadContext) -> JobSpec:
    document = None
    if isinstance(tree.value, dict):
        document = _validate(tree)
    if document is not None:
        check(document, tree)
        check_roles(document, tree)
        job = build(document, tree, context)
        if not tree.problems:
            return job
    raise bad_spec(tree)


def bad_spec(tree: yaml_tree.Tree) -> BadSpec:
    """One error with a line for each problem."""
    problems = tree.sorted_problems()
    lines = [str(problem) for problem in problems[:MAX_SHOWN]]
    if len(problems) > MAX_SHOWN:
        lines.append(f"{tree.source}: and {len(problems) - MAX_SHOWN} more problems")
    return BadSpec("\n".join(lines), problems=problems)


def _validate(tree: yaml_tree.Tree) -> Document | None:
    """The document. Where values are wrong, placeholders replace them, so that the other checks
    can run; None when even that fails."""
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
    """New containers, the same scalars: these remember how they were written."""
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _mend(value: Any, path: yaml_tree.Path) -> None:
    """Remove the wrong key at ``path``, replace the wrong list item, or add an example for the
    missing key."""
    for part in path[:-1]:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return
    last = path[-1] if path else ""
    if isinstance(value, list) and isinstance(last, int):
        value[last] = yaml_tree.PLACEHOLDER
    elif isinstance(value, dict) and last in value:
        del value[last]
    elif isinstance(value, dict):
        _put_example(value, path)


def _put_example(value: dict[str, Any], path: yaml_tree.Path) -> None:
    value[str(path[-1])] = (examples_at(path) or [yaml_tree.PLACEHOLDER])[0]


def _unreadable(source: str, message: str, hint: str = "") -> BadSpec:
    problem = SpecProblem(source, 0, 0, "", message)
    return BadSpec(str(problem), hint=hint, problems=(problem,))


def _read(file: FilePath) -> str:
    source = str(file)
    try:
        if file.is_dir():
            raise _unreadable(source, "is a directory; name the spec file in it")
        with file.open("rb") as stream:
            data = stream.read(yaml_tree.MAX_BYTES + 1)
    except FileNotFoundError:
        hint = "To create a starter: yarnam spec init -o job.yaml"
        raise _unreadable(source, "no such file", hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreadable(source, f"cannot be read: {reason}") from error
    if len(data) > yaml_tree.MAX_BYTES:
        raise _unreadable(source, "is larger than 1 MiB: this is not a job spec")
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
    problem = SpecProblem(
        source, line, column, "", f"is not UTF-8 ({what}); save the file as UTF-8"
    )
    return BadSpec(str(problem), problems=(problem,))
