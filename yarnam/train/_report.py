"""Progress and metrics: sent to the agent of this container, without waiting."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from typing import Any

from yarnam.train._job_context import setting
from yarnam.train._skipped_records import counts

_MAX_VALUES = 64
_MAX_NAME = 100

RESTORED_STEP = "restored_step"
"""The metric of a restore, as ``yarnam.wire.protocol`` knows it."""

# One socket per process: a forked child (a data loader) must not share its parent's.
_open: dict[int, socket.socket | None] = {}


def report(
    step: int | None = None,
    total_steps: int | None = None,
    loss: float | None = None,
    **metrics: Any,
) -> None:
    """Report progress and metrics. Values that are no numbers are dropped.

    Never blocks and never raises: when the agent is away or busy the report is dropped; the next
    one replaces it anyway. Cheap enough for every step (tens of microseconds).
    """
    try:
        address = setting("metrics_socket")
        if not address:
            return
        values = dict(metrics) if loss is None else {"loss": loss, **metrics}
        values = {**counts(), **values}
        message = {
            "local_rank": int(os.environ.get("YARNAM_LOCAL_RANK", "0")),
            "at_s": time.time(),
            "step": None if step is None else int(step),
            "total_steps": None if total_steps is None else int(total_steps),
            "values": _numbers(values),
        }
        _send(address, json.dumps(message).encode())
    except Exception:  # noqa: BLE001, S110 - a report is never worth a training run
        pass


def report_restored(step: int) -> None:
    """Report that the training goes on after this step. A later report replaces this one: a process
    that ends with it has trained nothing."""
    print(f"yarnam: restored the checkpoint of step {step}", file=sys.stderr, flush=True)  # noqa: T201
    report(step, **{RESTORED_STEP: step})


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    numbers = {}
    for name, value in list(values.items())[:_MAX_VALUES]:
        try:
            numbers[str(name)[:_MAX_NAME]] = float(value)
        except (TypeError, ValueError, OverflowError):
            continue
    return numbers


def _send(address: str, data: bytes) -> None:
    sender = _socket(address)
    if sender is not None:
        try:
            sender.send(data, socket.MSG_DONTWAIT)
        except OSError:
            pass  # full, or the agent is away


def _socket(address: str) -> socket.socket | None:
    pid = os.getpid()
    if pid not in _open:
        _open.clear()
        _open[pid] = None
        path = "\0" + address[1:] if address.startswith("@") else address
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            made.connect(path)
            _open[pid] = made
        except OSError:
            made.close()
    return _open[pid]
