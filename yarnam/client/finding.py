"""What the doctor finds of one part."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from yarnam.errors import ExitCode


class Health(Enum):
    """How a part is."""

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
