"""A conversion: the foreign job's values, and what becomes of each."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from yarnam.errors import BadSpec


@dataclass(frozen=True, slots=True)
class Dropped:
    """A key of the foreign job that the spec does not have, or has otherwise, and why."""

    key: str
    why: str


@dataclass(frozen=True, slots=True)
class Conversion:
    """``spec``: a job spec as plain values; ``dropped``: in the order of the foreign job."""

    spec: dict[str, Any]
    dropped: tuple[Dropped, ...]


@dataclass
class Source:
    """A foreign job's values by dotted key. What nobody takes or drops is unknown."""

    what: str
    """As the user knows it: a file's name."""
    values: dict[str, Any]
    _dropped: list[Dropped] = field(default_factory=list)

    def take(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, which is converted by the caller."""
        return self.values.pop(key, default)

    def whole(self, key: str, default: int) -> int:
        """As ``take``, of a whole number. Raises BadSpec."""
        value = self.take(key, default)
        try:
            if isinstance(value, bool):
                raise ValueError
            return int(value)
        except (TypeError, ValueError):
            raise BadSpec(f"{self.what}: {key} is {value!r}, not a whole number") from None

    def drop(self, key: str, why: str) -> None:
        """The spec has no such thing."""
        if key in self.values:
            del self.values[key]
            self._dropped.append(Dropped(key, why))

    def note(self, key: str, why: str) -> None:
        """It is converted, but means something else."""
        self._dropped.append(Dropped(key, why))

    def drop_all(self, pattern: str, why: str) -> None:
        """As ``drop``, of every key that is left and matches the regular expression."""
        for key in [key for key in self.values if re.fullmatch(pattern, key, re.DOTALL)]:
            self.drop(key, why)

    def finish(self, spec: Mapping[str, Any]) -> Conversion:
        """Raises BadSpec: there are keys that nothing is known of."""
        if self.values:
            names = ", ".join(sorted(self.values))
            raise BadSpec(
                f"{self.what}: unknown keys: {names}",
                hint="Nothing was converted. Correct them, or take them out if they do not matter.",
            )
        full = {key: value for key, value in spec.items() if value not in ({}, [], None, "")}
        return Conversion(full, tuple(self._dropped))


def flat(tree: Mapping[str, Any], stop: Iterable[str] = (), prefix: str = "") -> dict[str, Any]:
    """A tree of mappings by dotted key; the keys of ``stop`` keep their mappings."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and name not in stop:
            found.update(flat(value, stop, f"{name}."))
        else:
            found[name] = value
    return found


def duration(milliseconds: int) -> str:
    """As a spec has it."""
    if milliseconds % 1000:
        return f"{milliseconds}ms"
    return f"{milliseconds // 1000}s"


def memory(text: Any) -> str:
    """A size as Hadoop's users write it (``2g``, ``512m``, plain MiB), as a spec has it."""
    plain = str(text).strip().lower()
    if plain.isdigit():
        return f"{plain}MiB"
    found = re.fullmatch(r"(\d+)\s*([mgt])(i?b)?", plain)
    if found is None:
        raise BadSpec(f"{text!r} is not an amount of memory", hint="As in 2g, 512m, or MiB.")
    unit = {"m": "MiB", "g": "GiB", "t": "TiB"}[found[2]]
    return f"{found[1]}{unit}"


def queue_name(name: str) -> str:
    """The full name of a queue; others take the last part for enough."""
    return name if name == "root" or name.startswith("root.") else f"root.{name}"


def job_name(text: str) -> str:
    """As a spec allows it: letters, digits, ``.``, ``_`` and ``-``, at most 100."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-")[:100] or "imported"


def role_name(text: str) -> str:
    """As a spec allows it: ``[a-z][a-z0-9-]*``."""
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-") or "worker"


def mapping(what: str, value: Any) -> dict[str, Any]:
    """The value, where it is a mapping with names as keys; empty for None. Raises BadSpec."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise BadSpec(f"{what} is not a mapping of names")
    return dict(value)


def words(what: str, text: str) -> list[str]:
    """As a shell splits it. Raises BadSpec."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadSpec(f"{what}: {error}", hint="Is a quotation mark missing?") from None


def assignments(what: str, text: str, separator: str = ",") -> dict[str, str]:
    """``A=1,B=2`` as a mapping. Raises BadSpec."""
    found = {}
    for one in filter(None, (part.strip() for part in text.split(separator))):
        name, sign, value = one.partition("=")
        if not sign:
            raise BadSpec(f"{what}: {one!r} is no NAME=VALUE")
        found[name] = value
    return found
