"""The settings of the Capacity Scheduler (``capacity-scheduler.xml``) as a tree of queues.

After ``CapacitySchedulerConfiguration`` of Hadoop 3.4: a setting of a queue has the queue's full
name before its own, and of two settings with one name the last counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from yarnam.core.queues.allocations import Element
from yarnam.core.queues.amounts import GPU

CAPACITY = "yarn.scheduler.capacity"
DOMINANT = "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
MOST_QUEUES = 20_000
"""A file with more is not read: no cluster has them, and each costs memory."""
MAX_DEPTH = 64
"""Queues within queues."""

_BRACKETS = re.compile(r"^\[[\w.,\-=\s/%]+\]$")


@dataclass(frozen=True, slots=True)
class Setting:
    """One property. ``line`` 0: it is not from a file."""

    name: str
    value: str
    line: int = 0


class Kind(Enum):
    """The notation of a capacity. All children of a queue use the same kind."""

    PERCENT = "percent"
    WEIGHT = "weights"
    ABSOLUTE = "amounts"


@dataclass(frozen=True, slots=True)
class Share:
    """A capacity: per cent of the queue above, a weight, or ``amounts`` by lower-case name."""

    kind: Kind
    number: float = 0.0
    amounts: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def gpus(self) -> int:
        text = self.amounts.get(GPU, "0")
        return int(text) if text.isdigit() and len(text) < 19 else 0


def read_share(text: str) -> Share:
    """Raises ValueError where YARN does."""
    text = text.strip()
    if _BRACKETS.match(text):
        pairs = (piece.partition("=") for piece in text[1:-1].split(","))
        amounts = {name.strip().lower(): value.strip() for name, _, value in pairs}
        return Share(Kind.ABSOLUTE, amounts=amounts)
    if text.endswith("w"):
        return Share(Kind.WEIGHT, float(text[:-1]))
    return Share(Kind.PERCENT, float(text))


@dataclass(frozen=True, slots=True)
class CapacityQueue:
    """A queue with its own settings, by the end of their names."""

    path: str
    """Full, as in ``root.dl``."""
    settings: Mapping[str, Setting]
    children: tuple[CapacityQueue, ...] = ()
    line: int = 0
    """Where it is listed."""

    @property
    def is_leaf(self) -> bool:
        return not self.children

    def walk(self) -> Iterator[CapacityQueue]:
        """This queue and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def share(self, key: str = "capacity") -> Share | None:
        """``None`` if it is not set, or not a value that YARN accepts."""
        found = self.settings.get(key)
        try:
            return read_share(found.value) if found is not None and found.value.strip() else None
        except ValueError:
            return None

    def where(self, *keys: str) -> int:
        """The line of the first of these settings that is set, else that of the queue."""
        return next((self.settings[key].line for key in keys if key in self.settings), self.line)

    def full_name(self, key: str) -> str:
        """The name of one of its settings."""
        return f"{CAPACITY}.{self.path}.{key}"


@dataclass(frozen=True, slots=True)
class CapacityConfig:
    """All settings whose names begin with ``yarn.scheduler.capacity`` and others of the file."""

    settings: Mapping[str, Setting]
    """The queues by full name."""
    root: CapacityQueue
    repeated: tuple[Setting, ...] = ()
    """Settings that another one with the same name replaces."""
    listed_twice: tuple[Setting, ...] = ()
    """Lists of queues that name one twice."""

    def queues(self) -> Iterator[CapacityQueue]:
        """All of them, root first."""
        return self.root.walk()

    def value(self, key: str, default: str = "") -> str:
        """A setting of the scheduler as a whole, by the end of its name."""
        found = self.settings.get(f"{CAPACITY}.{key}")
        return found.value.strip() if found is not None else default


def read_settings_of(document: Element) -> CapacityConfig:
    """Read a file from its outermost element, ``<configuration>``."""
    found: list[Setting] = []
    for one in document.children:
        name, value = one.child("name"), one.child("value")
        if one.tag == "property" and name is not None:
            text = value.text.strip() if value is not None else ""
            found.append(Setting(name.text.strip(), text, name.line))
    return config_of(found)


def config_of(settings: list[Setting]) -> CapacityConfig:
    """The tree that these settings describe."""
    by_name: dict[str, Setting] = {}
    repeated: list[Setting] = []
    for setting in settings:
        if setting.name in by_name:
            repeated.append(by_name[setting.name])
        by_name[setting.name] = setting
    twice: list[Setting] = []
    paths = _paths(by_name, twice)
    own: dict[str, dict[str, Setting]] = {path: {} for path in paths}
    for setting in by_name.values():
        path = _queue_of(setting.name, own)
        if path:
            own[path][setting.name[len(CAPACITY) + len(path) + 2 :]] = setting
    return CapacityConfig(by_name, _tree("root", paths, own), tuple(repeated), tuple(twice))


def _paths(settings: Mapping[str, Setting], twice: list[Setting]) -> dict[str, int]:
    """All queues that are listed, parents first, with the lines of the lists."""
    found = {"root": 0}
    waiting = ["root"]
    while waiting and len(found) < MOST_QUEUES:
        path = waiting.pop()
        listed = settings.get(f"{CAPACITY}.{path}.queues")
        if listed is None or path.count(".") >= MAX_DEPTH:
            continue
        for name in filter(None, (piece.strip() for piece in listed.value.split(","))):
            below = f"{path}.{name}"
            if below in found:
                twice.append(listed)
            else:
                found[below] = listed.line
                waiting.append(below)
    return found


def _queue_of(name: str, known: Mapping[str, object]) -> str:
    """The queue of this setting, the longest name that fits; empty if there is none."""
    if not name.startswith(f"{CAPACITY}.root."):
        return ""
    path = name[len(CAPACITY) + 1 :]
    while "." in path:
        path = path.rpartition(".")[0]
        if path in known:
            return path
    return ""


def _tree(
    path: str, paths: Mapping[str, int], own: Mapping[str, Mapping[str, Setting]]
) -> CapacityQueue:
    below = f"{path}."
    listed = own[path].get("queues")
    names = dict.fromkeys(piece.strip() for piece in listed.value.split(",")) if listed else {}
    children = tuple(_tree(below + name, paths, own) for name in names if below + name in paths)
    return CapacityQueue(path, own[path], children, paths[path])
