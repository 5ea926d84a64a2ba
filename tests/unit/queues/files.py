"""Allocation files for tests."""

from __future__ import annotations

from yarnam.adapters.yarn.allocation_xml import parse_xml
from yarnam.core.queues.allocation_reading import read_allocations
from yarnam.core.queues.allocations import Allocations


def allocations(inside: str) -> Allocations:
    """What YARN reads of ``<allocations>`` with this inside; it has to take it."""
    found, refusals = read_allocations(parse_xml(f"<allocations>{inside}</allocations>".encode()))
    assert not refusals, refusals
    return found
