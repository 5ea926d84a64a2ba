"""Checks the file of a scheduler's queues; with the site's settings and the cluster's nodes, if
given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from yarnam.adapters.yarn.addresses import read_settings
from yarnam.adapters.yarn.allocation_xml import parse_xml, read_xml
from yarnam.client.planning.snapshot_file import read_snapshot
from yarnam.client.queues.lint_fixes import with_fixes
from yarnam.client.site import check_conf_dir
from yarnam.core.model.snapshot import Node
from yarnam.core.queues.allocation_reading import read_allocations
from yarnam.core.queues.allocations import Element
from yarnam.core.queues.amounts import GPU
from yarnam.core.queues.capacity import CapacityInput, lint_capacity
from yarnam.core.queues.capacity.capacity_file import read_settings_of
from yarnam.core.queues.lint import Finding, LintInput, Severity, lint
from yarnam.errors import ExitCode

SITE_FILES = ("core-site.xml", "yarn-site.xml", "resource-types.xml")


def lint_file(
    path: str, *, site: str = "", cluster: str = "", hadoop: tuple[int, int] = (3, 4)
) -> tuple[Finding, ...]:
    """All findings on the file at ``path``, an allocation file of the Fair Scheduler or, by its
    outermost element, the Capacity Scheduler's settings.

    ``site``: the directory of a Hadoop configuration; ``cluster``: a snapshot by ``yarnam nodes
    --save``. Raises UsageError (no such file), BadConfig (no XML)."""
    settings, nodes = _surroundings(site, cluster)
    return _lint(read_xml(path), settings, nodes, hadoop)


MOST_ROUNDS = 5
"""A fix may bring another finding to light; after this many what is left is left."""


def fixed_file(
    path: str, *, site: str = "", cluster: str = "", hadoop: tuple[int, int] = (3, 4)
) -> tuple[bytes, int, tuple[Finding, ...]]:
    """The file at ``path`` with what its findings propose, how many proposals were written, and the
    findings that are left. Raises as ``lint_file``."""
    settings, nodes = _surroundings(site, cluster)
    found = _lint(read_xml(path), settings, nodes, hadoop)
    text, count = Path(path).read_bytes(), 0
    for _ in range(MOST_ROUNDS):
        text, written = with_fixes(text, found)
        if not written:
            break
        count += written
        found = _lint(parse_xml(text), settings, nodes, hadoop)
    return text, count, found


def _surroundings(site: str, cluster: str) -> tuple[Mapping[str, str] | None, tuple[Node, ...]]:
    """The site's settings and the cluster's nodes, if given."""
    if site:
        check_conf_dir(Path(site), "--site")
    settings = read_settings(site, *SITE_FILES) if site else None
    return settings, read_snapshot(cluster).nodes if cluster else ()


def _lint(
    document: Element,
    settings: Mapping[str, str] | None,
    nodes: tuple[Node, ...],
    hadoop: tuple[int, int],
) -> tuple[Finding, ...]:
    has_type = settings is not None and GPU in settings.get("yarn.resource-types", "")
    has_gpus = has_type or _names_gpus(document) or any(node.total.gpus for node in nodes)
    if document.tag == "configuration":
        config = read_settings_of(document)
        return lint_capacity(CapacityInput(config, settings, nodes, hadoop, has_gpus))
    allocations, refusals = read_allocations(document)
    return lint(LintInput(allocations, settings, nodes, hadoop, has_gpus), refusals)


def _names_gpus(element: Element) -> bool:
    return GPU in element.text or any(_names_gpus(child) for child in element.children)


def exit_code(findings: Sequence[Finding]) -> ExitCode:
    """BAD_CONFIG where there is an error among the findings."""
    is_bad = any(finding.severity is Severity.ERROR for finding in findings)
    return ExitCode.BAD_CONFIG if is_bad else ExitCode.OK
