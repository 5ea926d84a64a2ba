"""The input of a rule, and its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TypeVar

from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Node
from yarnam.core.queues.allocations import Allocations, Element, QueueConfig
from yarnam.core.queues.amounts import GPU

FAIR = "yarn.scheduler.fair"
AM = Resources(1536, 1, 0)
"""yarnam's ApplicationMaster, unless a spec says otherwise."""


class Severity(Enum):
    """``error``: jobs cannot run, shares are not what is written, or YARN refuses the file.
    ``warning``: it hurts gangs or GPUs. ``note``: it would, if the site had GPUs."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """``line`` 0: it is about the site's settings. ``mended``: XML to put in its place.
    ``is_about_gpus``: it hurts only jobs with GPUs."""

    severity: Severity
    line: int
    message: str
    why: str
    mended: str = ""
    rule: str = ""
    is_about_gpus: bool = False


Given = TypeVar("Given", bound="SiteFacts")


def findings_by(
    rules: Mapping[str, Callable[[Given], Iterable[Finding]]],
    given: Given,
    before: Iterable[Finding] = (),
) -> tuple[Finding, ...]:
    """The findings of the rules, by name, and those of ``before``: in the order of their lines, the
    site's last. On a site without GPUs those about GPUs are notes; it refuses the GPU resource, so
    they name none to write."""
    found = [*before]
    for name, rule in rules.items():
        found += [replace(finding, rule=name) for finding in rule(given)]
    if not given.has_gpus:
        found = [_as_note(finding) if finding.is_about_gpus else finding for finding in found]
    return tuple(sorted(found, key=lambda one: (not one.line, one.line, one.severity.value)))


def _as_note(finding: Finding) -> Finding:
    mended = "" if GPU in finding.mended else finding.mended
    return replace(finding, severity=Severity.NOTE, mended=mended)


def about_gpus(finding: Finding) -> Finding:
    """The finding, marked as one that hurts only jobs with GPUs."""
    return replace(finding, is_about_gpus=True)


class SiteFacts:
    """The site, as far as it is given. ``settings``: by name; ``None`` means not given. ``nodes``:
    those of the cluster; empty means not given. ``has_gpus``: whether the site or the file knows
    GPUs."""

    settings: Mapping[str, str] | None
    nodes: tuple[Node, ...]
    has_gpus: bool

    @cached_property
    def cluster(self) -> Resources:
        """All that usable nodes have."""
        whole = Resources()
        for node in self.nodes:
            if node.is_usable:
                whole = whole.plus(node.total)
        return whole

    def setting(self, name: str, default: str = "") -> str:
        """A setting of the site, in lower case; its default where none is set."""
        return (self.settings or {}).get(name, default).strip().lower()

    def number(self, name: str, default: float) -> float:
        """A setting of the site as a number; ``default`` also where it is none."""
        try:
            return float(self.setting(name, str(default)))
        except ValueError:
            return default


@dataclass(frozen=True)
class LintInput(SiteFacts):
    """An allocation file and its site. ``hadoop``: major and minor version."""

    allocations: Allocations
    settings: Mapping[str, str] | None = None
    nodes: tuple[Node, ...] = ()
    hadoop: tuple[int, int] = (3, 4)
    has_gpus: bool = True

    @property
    def root(self) -> QueueConfig:
        return self.allocations.root

    def queues(self) -> Iterator[QueueConfig]:
        """All of them, root first."""
        return self.allocations.root.walk()

    @property
    def preempts(self) -> bool:
        """Whether the site has preemption on; False also where its settings are not given."""
        return self.setting(f"{FAIR}.preemption") == "true"


def error(element: Element | None, message: str, why: str, mended: str = "") -> Finding:
    """``element`` None: the site's settings."""
    return Finding(Severity.ERROR, element.line if element else 0, message, why, mended)


def warning(element: Element | None, message: str, why: str, mended: str = "") -> Finding:
    """``element`` None: the site's settings."""
    return Finding(Severity.WARNING, element.line if element else 0, message, why, mended)


def xml(tag: str, value: object) -> str:
    """An element with this text."""
    return f"<{tag}>{value}</{tag}>"


def site_xml(name: str, value: object) -> str:
    """A property for the site's configuration."""
    return f"<property><name>{name}</name><value>{value}</value></property>"
