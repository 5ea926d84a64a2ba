"""Where in the job this process is: read from the environment at each call.

Plain variables (``YARNAM_RANK``) are for any program, this one included. ``YARNAM_SDK`` holds what
only the SDK reads, as one JSON object; outside a job there is none.
"""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from typing import Any

VARIABLE = "YARNAM_SDK"


@lru_cache(maxsize=1)
def _parsed(text: str) -> dict[str, Any]:
    settings = json.loads(text)
    return settings if isinstance(settings, dict) else {}


def setting(name: str) -> Any:
    """A setting of ``YARNAM_SDK``; None outside a job, and where the job has none."""
    text = os.environ.get(VARIABLE)
    return _parsed(text).get(name) if text else None


def _number(name: str, otherwise: int) -> int:
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return otherwise


def is_in_job() -> bool:
    """Whether this process was started by yarnam."""
    return "YARNAM_RANK" in os.environ


def rank() -> int:
    """Global rank; 0 outside a job. Never stable across attempts."""
    return _number("YARNAM_RANK", 0)


def world_size() -> int:
    """Number of processes that train together, so without services and optional roles; 1 outside
    a job."""
    return _number("YARNAM_WORLD_SIZE", 1)


def local_rank() -> int:
    """Rank within this task (container); 0 outside a job."""
    return _number("YARNAM_LOCAL_RANK", 0)


def is_chief() -> bool:
    """Whether this is the process of rank 0, which saves and prints for all."""
    return rank() == 0


def attempt() -> int:
    """Which try of the gang this is, from 1; 1 outside a job."""
    return _number("YARNAM_ATTEMPT", 1)


def checkpoint_directory(default: str | None = None) -> str | None:
    """URI of the job's checkpoints, the same in every attempt; ``default`` when there is none."""
    return os.environ.get("YARNAM_CHECKPOINT_DIR") or default


def checkpoint_keep(default: int = 3) -> int:
    """How many of the newest checkpoints the spec wants kept."""
    options = setting("checkpoint")
    return int(options["keep"]) if options else default


def output_directory(default: str | None = None) -> str | None:
    """URI of a directory of this task's own: what is written there becomes part of the job's output
    when all tasks have succeeded. ``default`` when the spec names no output."""
    return os.environ.get("YARNAM_OUTPUT") or default


def input(name: str, default: str | None = None) -> str:  # noqa: A001 - train.input("digits")
    """URI of a data input of the spec. Raises KeyError when there is none of this name and no
    ``default``: a spelling mistake must not train on nothing."""
    variable = "YARNAM_INPUT_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
    found = os.environ.get(variable) or default
    if found is None:
        known = sorted(key[13:].lower() for key in os.environ if key.startswith("YARNAM_INPUT_"))
        shown = ", ".join(known) or "none"
        raise KeyError(f"the job has no data input {name!r}; it has: {shown}")
    return found
