"""Checks of the user's own: an entry point of the group ``yarnam.validators``, or a function.

A check is a function of (file, path): the file is binary and seekable. It returns nothing, or an
iterable of problems (a text, or a :class:`Problem`); ``ValueError`` is a problem too. An entry
point's name is the format or the ending it is for, as in ``.myformat``::

    [project.entry-points."yarnam.validators"]
    ".sensor" = "my_package.checks:check_sensor_file"
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from operator import attrgetter
from typing import BinaryIO, Union

from hdfs_utils.validation.findings import Corrupt, Findings, Reason
from hdfs_utils.validation.sources import Source

GROUP = "yarnam.validators"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a file; ``offset`` in bytes."""

    message: str
    offset: int | None = None
    record: int | None = None


UserCheck = Callable[[BinaryIO, str], Union[Iterable[Union[Problem, str]], None]]


@dataclass(frozen=True, slots=True)
class OwnCheck:
    """A user's function as a check. What it raises besides ValueError means "not checked".

    Attributes:
        name: ``module:function``, by which another process finds it; empty means it cannot.
    """

    function: UserCheck
    name: str = ""

    def __call__(self, source: Source, found: Findings) -> None:
        with source.open() as file:
            try:
                for problem in self.function(file, source.name) or ():
                    one = Problem(problem) if isinstance(problem, str) else problem
                    found.corrupt(Reason.USER_CHECK, one.message, one.offset, one.record)
            except ValueError as error:
                raise Corrupt(Reason.USER_CHECK, str(error) or "refused") from error


def as_check(function: UserCheck) -> OwnCheck:
    """A user's function as a check. One at a module's top level can run in a process of its own;
    any other runs in this one."""
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    home = sys.modules.get(module) if module != "__main__" else None
    is_found = home is not None and getattr(home, name, None) is function
    return OwnCheck(function, f"{module}:{name}" if is_found else "")


def load(name: str) -> OwnCheck:
    """The check ``module:function``. Raises ValueError with what is wrong with the name."""
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f"{name!r} is not module:function")
    try:
        found = attrgetter(attribute)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"cannot load {name}: {error}") from error
    if not callable(found):
        raise ValueError(f"{name} is not a function")
    return OwnCheck(found, name)


def installed() -> dict[str, OwnCheck]:
    """The checks that installed packages offer, by format or ending."""
    entries = entry_points(group=GROUP)
    return {one.name: OwnCheck(one.load(), f"{one.module}:{one.attr}") for one in entries}
