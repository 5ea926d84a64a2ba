"""The doctor's finding on one part of the site; the check adds the part's name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from yarnam.errors import ExitCode


class Health(Enum):
    """The result of one check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``exit_code`` is that of a failure."""

    part: str
    health: Health
    message: str
    hint: str = ""
    exit_code: ExitCode = ExitCode.OK


def ok(message: str) -> Finding:
    """Nothing to do."""
    return Finding("", Health.OK, message)


def warn(message: str, hint: str) -> Finding:
    """Jobs run, but something is missing or unsafe; ``hint`` has the remedy."""
    return Finding("", Health.WARN, message, hint)


def fail(message: str, hint: str, code: ExitCode) -> Finding:
    """No job can run; ``code`` is the exit code of the command."""
    return Finding("", Health.FAIL, message, hint, code)
