"""Amounts of resources as an allocation file writes them, read as the Fair Scheduler reads them.

After ``FairSchedulerConfiguration.parseResourceConfigValue`` and ``ConfigurableResource`` of Hadoop
3.2 to 3.4. Three notations: ``memory-mb=1024, vcores=4, yarn.io/gpu=8`` (since 3.2), ``1024 mb,
4 vcores``, and percentages of the cluster in either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Union

from yarnam.core.model.resources import Resources

UNLIMITED = 2**63 - 1
"""Java's Long.MAX_VALUE: no limit."""

GPU = "yarn.io/gpu"
NAMES = ("memory-mb", "vcores", GPU)
"""The names of the three in allocation files, in the order of ``Resources``."""

_MEMORY_ALIASES = {"memory": "memory-mb"}
_PERCENT = re.compile(r"^(-?\d+(?:\.\d*)?)\s*%\s*([a-z]*)", re.IGNORECASE)
_OLD = re.compile(r"(-?\d+)(?:\.\d*)?\s*([a-z]+)", re.IGNORECASE)

Part = Union[int, float, None]
"""The amount of one resource: a number, a share of the cluster (a float), or no limit (None)."""


class BadAmount(ValueError):
    """The Fair Scheduler refuses this text, and with it the whole file."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A configured amount of each resource."""

    memory_mib: Part = None
    vcores: Part = None
    gpus: Part = None
    unknown: tuple[str, ...] = ()
    """Further resource types: YARN has to know them, or it refuses the file."""

    def of(self, cluster: Resources) -> Resources:
        """The limit in amounts, on a cluster of this size. ``UNLIMITED`` if there is no limit."""
        return Resources(
            _amount(self.memory_mib, cluster.memory_mib),
            _amount(self.vcores, cluster.vcores),
            _amount(self.gpus, cluster.gpus),
        )


def _amount(part: Part, whole: int) -> int:
    if part is None:
        return UNLIMITED
    return int(whole * part) if isinstance(part, float) else part


def parse_amounts(text: str, *, missing: int | None) -> Limit:
    """The amounts of ``text``. ``missing``: what the newer notation means where it leaves out a
    resource (None: no limit); among percentages it is all of the cluster. Raises BadAmount.

    Where there is no limit unless one is written, cores that are left out are zero: Hadoop 3.4.1
    makes no int of Long.MAX_VALUE (a real ResourceManager reports 0).

    The older notations know memory and cores only; the amount of every other resource is zero.
    """
    if not text.strip():
        raise BadAmount("the text is empty")
    if "=" in text:
        return _by_name(text, missing)
    if "%" in text:
        return _percentages(text)
    found = {unit.lower(): int(number) for number, unit in _OLD.findall(text)}
    memory, vcores = found.get("mb"), found.get("vcores")
    if memory is None or vcores is None:
        raise BadAmount(f"missing resource: {'mb' if memory is None else 'vcores'}")
    if memory < 0 or vcores < 0:
        raise BadAmount("an amount is negative")
    return Limit(memory, vcores, 0)


def _by_name(text: str, missing: int | None) -> Limit:
    is_percent = "%" in text
    parts: dict[str, Part] = dict.fromkeys(NAMES, 1.0 if is_percent else missing)
    if missing is None and not is_percent:
        parts["vcores"] = 0
    unknown: list[str] = []
    for item in text.split(","):
        name, equals, value = (piece.strip() for piece in item.partition("="))
        if not equals or "=" in value:
            raise BadAmount(f"{item.strip()!r} is not of the form name=value")
        part = _percentage(value) if is_percent else _whole(value)
        name = _MEMORY_ALIASES.get(name, name)
        if name in parts:
            parts[name] = part
        else:
            unknown.append(name)
    memory, vcores, gpus = (parts[name] for name in NAMES)
    return Limit(memory, vcores, gpus, tuple(unknown))


def _percentages(text: str) -> Limit:
    items = [item.strip() for item in text.split(",")]
    if len(items) == 1:
        part = _percentage(items[0])
        return Limit(part, part, part)
    found: dict[str, float] = {}
    for item in items:
        match = _PERCENT.match(item)
        if match:
            found[match[2].lower()] = _percentage(item)
    if "memory" not in found or "cpu" not in found:
        raise BadAmount(f"missing resource: {'cpu' if 'memory' in found else 'memory'}")
    return Limit(found["memory"], found["cpu"], 0.0)


def _percentage(text: str) -> float:
    match = _PERCENT.match(text)
    if match is None:
        raise BadAmount(f"{text!r} is not a percentage; either all amounts are, or none")
    if match[1].startswith("-"):
        raise BadAmount(f"{text!r} is negative")
    return float(match[1]) / 100.0


def _whole(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,18}", text):
        raise BadAmount(f"{text!r} is not an integer")
    if int(text) < 0:
        raise BadAmount(f"{text!r} is negative")
    return int(text)
