"""Gangs of small real processes that fail in known ways: what first causes are judged on."""

# Each registers its ways to fail when it is imported.
from . import (
    everyday_faults,
    faults,
    foreign_faults,
    framework_faults,
    further_faults,
    program_faults,
    unseen_faults,
)

__all__ = [
    "everyday_faults",
    "faults",
    "foreign_faults",
    "framework_faults",
    "further_faults",
    "program_faults",
    "unseen_faults",
]
