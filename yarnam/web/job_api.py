"""The bodies of ``/api/v1``, which ``yarnam.web.openapi`` describes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from yarnam.core.model.printable import printable_json
from yarnam.web.training_series import Series

MAX_EVENTS = 500
"""In one response."""
_MAX_DIGITS = 12


def first_event(text: str) -> int | None:
    """The number in a query; ``None`` means it is none."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    return int(text) if is_number else None


def events_body(lines: Sequence[bytes], first: int) -> bytes:
    """``next`` is the number to ask from next."""
    head = f'{{"first":{first},"next":{first + len(lines)},"events":['.encode()
    return head + b",".join(lines) + b"]}"


def series_body(series: Sequence[Series], step_times: Mapping[int, float]) -> bytes:
    """Series of the lowest rank that reports, and each rank's step time in seconds."""
    plain = {
        "series": [{"name": one.name, "unit": one.unit, "points": one.points} for one in series],
        "step_times": [{"rank": rank, "step_s": step_times[rank]} for rank in sorted(step_times)],
    }
    return printable_json(json.dumps(plain, ensure_ascii=False, allow_nan=False)).encode(
        "utf-8", "replace"
    )
