"""Progress and metrics: sent to the agent of this container, without waiting.

A step may take a few milliseconds, and the caches are cold for us: all that is done in each counts.
So a report that comes soon after one that was sent is only remembered, and its step written where
the agent finds it in whatever way this process ends.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import struct
import sys
import time
from contextlib import contextmanager, suppress
from operator import index
from typing import TYPE_CHECKING, Any

from yarnam.train._job.job_context import setting
from yarnam.train._job.pre_run_end import is_pre_run, note_step
from yarnam.train._reports.skipped_records import counts
from yarnam.train._reports.step_times import of_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_MAX_VALUES = 64
_MAX_NAME = 100

_SEND_EVERY_S = 1.0
"""The least time between two reports. More often would wake the agent for nothing, which informs
the ApplicationMaster every other second."""

_MARK = struct.Struct("<qd")
"""The newest step, and when it was reported; ``yarnam.agent.metrics_inbox`` reads it."""

RESTORED_STEP = "restored_step"
"""The metric of a restore, as ``yarnam.wire.protocol`` knows it."""

_of_checkpoints: dict[str, float] = {}
"""The steps that this process has restored and saved; every report carries them."""

_of_size: dict[str, float] = {}
"""The epoch that it reads, and the GPUs that it wants; every report carries them."""

_of_steps: dict[str, float] = {}
"""How long its steps take; every report carries it."""

_CHECKPOINT = "checkpoint"
"""The pause in which a stop waits, as ``yarnam.wire.protocol`` knows it."""

observers: list[Callable[[int | None, Mapping[str, float]], None]] = []
"""Called with the step and the numbers of each report, as the program gives them."""

_last: dict[str, Any] = {}
"""The newest report: what is sent besides must not hide it."""
_pauses: list[str] = []
_is_ready = False
_has_raised = False

# One socket per process: a forked child (a data loader) must not share its parent's.
_open: dict[int, socket.socket | None] = {}


class _Remembered:
    """The newest report where it was not sent. Not in a forked child."""

    def __init__(self) -> None:
        self._file = -1
        self._until_s = 0.0
        self._report: tuple[Any, ...] | None = None
        atexit.register(self._send_at_exit)
        os.register_at_fork(after_in_child=self._forget)

    def take(
        self,
        step: int | None,
        total_steps: int | None,
        loss: float | None,
        metrics: dict[str, Any],
    ) -> bool:
        """Whether this report need not be sent now."""
        if step is None or time.monotonic() >= self._until_s or RESTORED_STEP in metrics:
            return False
        try:
            number = int(step)
            of_process.end_step(number, metrics.get("compute_s"))
            os.pwrite(self._file, _MARK.pack(number, time.time()), 0)
        except Exception:  # noqa: BLE001 - the disk is full, the step is not a number
            return False
        self._report = (step, total_steps, loss, metrics)
        return True

    def begin(self, step: int | None) -> None:
        """One is sent now. It may be lost where the agent has no time to take what it was sent."""
        stop_file = os.environ.get("YARNAM_STOP_FILE")
        if self._file < 0:
            if not stop_file or is_pre_run():
                return
            name = f"{stop_file}.{os.environ.get('YARNAM_LOCAL_RANK', '0')}.step"
            self._file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._until_s = time.monotonic() + _SEND_EVERY_S
        if step is not None:
            os.pwrite(self._file, _MARK.pack(int(step), _last["at_s"]), 0)

    def pop(self) -> tuple[Any, ...] | None:
        report, self._report = self._report, None
        return report

    def _send_at_exit(self) -> None:
        if self._report is not None:
            _report_pause()

    def _forget(self) -> None:
        self._file, self._until_s, self._report = -1, 0.0, None


_remembered = _Remembered()


def report(
    step: int | None = None,
    total_steps: int | None = None,
    loss: float | None = None,
    **metrics: Any,
) -> None:
    """Report progress and metrics. Values that are not numbers are dropped.

    Never blocks and never raises: when the agent is away or busy the report is dropped; the next
    one replaces it anyway. Cheap enough for every step (some ten microseconds): metrics are sent
    once a second at most. In a pre-run it ends a program that does not stop when it should
    (SystemExit).
    """
    global _has_raised  # noqa: PLW0603 - of the process, as the socket is
    if _has_raised:
        _has_raised = False  # the program continues
    if observers:
        _observe(step, metrics if loss is None else {"loss": loss, **metrics})
    if _remembered.take(step, total_steps, loss, metrics):
        return
    _report(step, total_steps, loss, metrics)
    if step is not None:
        note_step()


def _report(
    step: int | None, total_steps: int | None, loss: float | None, metrics: dict[str, Any]
) -> None:
    try:
        address = setting("metrics_socket")
        if not address:
            return
        _remembered.pop()
        _note(step, total_steps, loss, metrics)
        with suppress(OSError, struct.error):
            _remembered.begin(step)
        _send_last(address)
    except Exception:  # noqa: BLE001, S110 - a report is never worth a training run
        pass


def _note(
    step: int | None,
    total_steps: int | None,
    loss: float | None,
    metrics: dict[str, Any],
) -> None:
    values = dict(metrics) if loss is None else {"loss": loss, **metrics}
    if step is not None:
        of_process.end_step(int(step), metrics.get("compute_s"))
        _of_steps.update(of_process.metrics())
    values = {**counts(), **_of_checkpoints, **_of_size, **_of_steps, **values}
    _last.update(
        at_s=time.time(),
        step=None if step is None else int(step),
        total_steps=None if total_steps is None else int(total_steps),
        values=_numbers(values),
    )


def _observe(step: int | None, metrics: dict[str, Any]) -> None:
    try:
        numbers = _numbers(metrics)
        for observer in observers:
            observer(None if step is None else int(step), numbers)
    except Exception:  # noqa: BLE001, S110 - a report is never worth a training run
        pass


def ready() -> None:
    """This process is ready for the roles that start after its own (``after`` in the spec, until
    ``ready``). A task is when all of its processes are. Never blocks and never raises; each later
    report repeats it."""
    global _is_ready  # noqa: PLW0603 - of the process, as the socket is
    _is_ready = True
    _report_pause()


def report_raised() -> None:
    """Report that nothing has caught an exception: this process ends. Said again with whatever is
    reported later, but for a step."""
    global _has_raised  # noqa: PLW0603 - of the process, as the socket is
    _has_raised = True
    _report_pause()


@contextmanager
def pause(reason: str) -> Iterator[None]:
    """A time in which no step ends, and nothing is wrong: an evaluation, a compilation.

    The job is not called hung meanwhile, however long it takes (``hang.timeout`` of the spec limits
    it). Pauses may be nested, and threads may have their own. ``checkpoint`` is a reason with a
    meaning: when another part of the gang fails, a process in it has all of ``am.stop_grace``.
    Saving and restoring by ``yarnam.train.checkpoint`` are pauses by themselves.
    """
    _pauses.append(reason)
    of_process.disturb()
    _report_pause()
    try:
        yield
    finally:
        _pauses.remove(reason)
        of_process.disturb()
        _report_pause()


@contextmanager
def compute() -> Iterator[None]:
    """The part of a step that this process does on its own, before it waits for the others: loading
    a batch, forward, backward. May come several times in a step.

    The ApplicationMaster finds the ranks that slow the gang by it. On a GPU the work continues
    after the call: synchronize at the end of the block, or measure with events of the device and
    report the seconds as ``report(step=..., compute_s=...)``."""
    with of_process.compute():
        yield


def _report_pause() -> None:
    try:
        if address := setting("metrics_socket"):
            _send_last(address)
    except Exception:  # noqa: BLE001, S110 - as above
        pass


def _send_last(address: str) -> None:
    remembered = _remembered.pop()
    if remembered is not None:
        _note(*remembered)
    pauses = [*_pauses]
    reason = _CHECKPOINT if _CHECKPOINT in pauses else pauses[-1] if pauses else ""
    message = {
        "at_s": time.time(),
        "step": None,
        "total_steps": None,
        "values": {},
        **_last,
        "local_rank": int(os.environ.get("YARNAM_LOCAL_RANK", "0")),
        "pause": reason[:_MAX_NAME],
        "ready": _is_ready,
    }
    if _has_raised:
        message["raised"] = True
    _send(address, json.dumps(message).encode())


def request_size(gpus: int | None) -> None:
    """Ask for another size of an elastic job, as ``yarnam scale`` does: the GPUs of the whole gang.
    With ``None`` the job chooses again.

    Call it at the beginning of an epoch: the gang takes the size as soon as it fits, and for that
    all processes stop at one step and start again from their checkpoint, with new ranks. A size
    that the job cannot have becomes the nearest one; one that a user has asked for comes first. The
    ranks may all call it, or one of them. Never blocks; outside a job it does nothing.
    """
    wanted = 0 if gpus is None else index(gpus)
    if gpus is not None and wanted < 1:
        raise ValueError(f"a gang has at least 1 GPU, not {wanted}; None: the job chooses")
    _of_size["requested_gpus"] = float(wanted)
    _send_with(_of_size)


def note_epoch(epoch: int) -> None:
    """The program's own ``epoch``, where it reports one, comes first."""
    _of_size["epoch"] = float(epoch)


def _send_with(values: dict[str, float]) -> None:
    """The newest report again, with these."""
    try:
        remembered = _remembered.pop()
        if remembered is not None:
            _note(*remembered)
        _last["values"] = {**_last.get("values", {}), **values}
        if address := setting("metrics_socket"):
            _send_last(address)
    except Exception:  # noqa: BLE001, S110 - as above
        pass


def report_restored(step: int) -> None:
    """Report that the training continues after this step. A later report replaces this one: a
    process that ends with it has trained nothing."""
    print(f"yarnam: restored the checkpoint of step {step}", file=sys.stderr, flush=True)  # noqa: T201
    _of_checkpoints["resumed_step"] = float(step)
    report(step, **{RESTORED_STEP: step})


def report_saved(step: int | None, saving_s: float) -> None:
    """Report the newest checkpoint that is safe (None: none is yet), and how long the training has
    stood still for this save. What was reported before stays as it was."""
    saved_s = _of_checkpoints.get("saving_s", 0.0) + saving_s
    _of_checkpoints["saving_s"] = saved_s
    if step is not None:
        _of_checkpoints["saved_step"] = float(step)
    if _last:
        _send_with(_of_checkpoints)


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
