"""What a failed process left, and the parts of it that rules are tried on: nearest to the failure
first.

Far evidence is not looked at where a traceback ends the log: it names the reason itself, and what
was printed long before has been survived.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from yarnam.core.model.outcomes import Origin, Stream

TRACEBACK = "Traceback (most recent call last)"

NEAR_LINES = 40
"""The last lines of a log that are near to its end: a screen."""

TRACEBACK_LINES = 250
"""A last traceback that began farther from the end than this was survived."""

INNERMOST_FRAMES = 8
"""Frames of a traceback that say where an exception comes from; the others led there."""


@dataclass(frozen=True, slots=True)
class ProcessEvidence:
    """What a failed process left. Texts are bounded by whoever collects them."""

    code: int = 0
    signal: int = 0
    log: tuple[str, ...] = ()
    """Of its output: lines of the start and of the end, in order."""
    origins: tuple[Origin | None, ...] = ()
    """Of each line of ``log``; empty means of none."""
    facts: tuple[str, ...] = ()
    """What the agent saw itself: a full disk, a kill by the kernel for want of memory."""
    error_file: tuple[str, ...] = ()
    """The message in the framework's error file (``TORCHELASTIC_ERROR_FILE``)."""
    error_at_s: float | None = None
    """The time in it."""


@dataclass(frozen=True, slots=True)
class Zone:
    """Some of the evidence. ``name`` is for people."""

    name: str
    lines: Sequence[str]
    frames: Sequence[str] = ()
    """Of a traceback, the innermost ones."""
    is_log: bool = False
    is_child: bool = False
    """What a child process printed before the last traceback, its parent's."""
    is_before: bool = False
    """The lines before the last traceback: most of what they complain of was survived."""
    is_launcher: bool = False
    """The last traceback, where it is that of a launcher whose process has failed."""


DUMP = "(most recent call first):"
"""What faulthandler writes before the stack of a thread, for whoever asks where it is."""


def own_traceback(evidence: ProcessEvidence) -> tuple[ProcessEvidence, Origin | None] | None:
    """Of a process that lives: what it has written up to the end of its last traceback, or its
    error file, and where the traceback began; ``None`` means it has written neither."""
    log = [without_prefix(line) for line in evidence.log]
    begin = _last_traceback(log)
    end = next((n for n in range(max(0, begin), len(log)) if log[n].endswith(DUMP)), len(log))
    if begin < max(0, end - TRACEBACK_LINES):
        return (replace(evidence, log=(), origins=()), None) if evidence.error_file else None
    cut = replace(evidence, log=evidence.log[:end], origins=evidence.origins[:end])
    return cut, evidence.origins[begin] if evidence.origins else None


def zones_of(evidence: ProcessEvidence) -> list[Zone]:
    """The evidence, nearest to the failure first."""
    log = [without_prefix(line) for line in evidence.log]
    begin = _last_traceback(log)
    has_traceback = begin >= 0 and begin >= len(log) - TRACEBACK_LINES
    zones = [
        Zone("seen by the agent", evidence.facts),
        Zone("error file", [line for line in evidence.error_file if not _is_frame(line)]),
    ]
    if has_traceback:
        last = _traceback_zone(evidence, log, begin)
        children = _launched_zones if last.is_launcher else _child_zone
        chain = _chain_begin(log, begin)
        before = Zone("before the last traceback", log[:chain], is_log=True, is_before=True)
        return [*zones, *_last_error(last), last, *children(log, chain), before]
    begin = max(0, len(log) - NEAR_LINES)
    streams = _streams(evidence, len(log))
    on_stderr = [
        line
        for line, stream in zip(log[begin:], streams[begin:], strict=True)
        if stream is Stream.STDERR
    ]
    zones.append(Zone("last lines on stderr", on_stderr, is_log=True))
    zones.append(Zone("last lines", log[begin:], is_log=True))
    if not evidence.error_file:
        zones.append(Zone("earlier lines", log[:begin], is_log=True))
    return zones


def _last_error(zone: Zone) -> list[Zone]:
    """NCCL names the reason after ``Last error:``; the lines above it say only that it failed."""
    shown = [line.strip() for line in zone.lines]
    if "Last error:" not in shown:
        return []
    lines = [line for line in zone.lines[shown.index("Last error:") + 1 :] if line.strip()]
    return [Zone("NCCL's last error", lines[:1], is_log=True)] if lines else []


def _traceback_zone(evidence: ProcessEvidence, log: Sequence[str], begin: int) -> Zone:
    """What follows the last traceback on stderr comes from stdout where its buffer was written at
    the end: that was said long before."""
    streams = _streams(evidence, len(log))
    is_on_stderr = streams[begin] is Stream.STDERR
    begin = _chain_begin(log, begin)
    lines = [
        line
        for line, stream in zip(log[begin:], streams[begin:], strict=True)
        if not (is_on_stderr and stream is Stream.STDOUT)
    ]
    frames = [line for line in lines if line.startswith('  File "')][-INNERMOST_FRAMES:]
    near = [line for line in lines if not _is_frame(line)]
    is_launcher = any(word in line for line in near for word in _LAUNCHER_WORDS)
    near = _without_later_failures(near) if is_launcher else near
    return Zone("last traceback", near, frames, is_log=True, is_launcher=is_launcher)


_LAUNCHER_WORDS = (
    "ChildFailedError",  # torchrun, and accelerate, which uses it
    "Horovod detected that one or more processes exited with non-zero status",
    "ProcessExitedException",  # torch.multiprocessing.spawn
)

_LATER_FAILURES, _ROOT_CAUSE = "Failures:", "Root Cause (first observed failure):"


def _without_later_failures(lines: Sequence[str]) -> list[str]:
    """torchrun's table without the processes that failed after the first one, which come first."""
    shown = [line.strip() for line in lines]
    if _LATER_FAILURES not in shown or _ROOT_CAUSE not in shown:
        return list(lines)
    return [*lines[: shown.index(_LATER_FAILURES)], *lines[shown.index(_ROOT_CAUSE) :]]


_CHILD_STATUS = re.compile(
    r"^\s*exitcode\s*: (-?\d{1,3}) \(pid: |^Exit code: (-?\d{1,3})$"
    r"|ProcessExitedException: .* terminated with exit code (\d{1,3})$"
)


@dataclass(frozen=True, slots=True)
class ChildStatus:
    """How the process ended that a launcher names as the first to fail, and the line that says so.
    The launcher itself ends with 1, whatever its child has ended with."""

    code: int
    signal: int
    line: str


def child_status(zones: Sequence[Zone]) -> ChildStatus | None:
    """`None` if no launcher names a process that failed."""
    lines = (line for zone in zones if zone.is_launcher for line in zone.lines)
    for match in filter(None, map(_CHILD_STATUS.search, lines)):
        number = int(next(filter(None, match.groups())))
        return ChildStatus(max(number, 0), max(-number, 0), match.string)
    return None


def exception_line(line: str, zone: Zone) -> str:
    """The exception's own line, where ``line`` is the head of a traceback of this zone, which says
    nothing."""
    if TRACEBACK not in line:
        return line
    heads = [number for number, one in enumerate(zone.lines) if one == line]
    after = zone.lines[heads[-1] + 1 :] if heads else ()
    return next((one for one in after if one.strip() and not _is_margin(one)), line)


def _is_margin(line: str) -> bool:
    """Of a group of exceptions: ``  +-+---------------- 1 ----------------``."""
    return line.strip().startswith("+")


_COMMAND_FAILED = "returned non-zero exit status"
"""Of subprocess.CalledProcessError."""

_CHILD_FRAMES = ("/multiprocessing/", "/concurrent/futures/process.py", "/loky/")
"""Files that the outermost frames of a Python child process are of."""


def _child_zone(log: Sequence[str], end: int) -> list[Zone]:
    """What a child process printed before ``end``, where its parent's traceback begins: its
    traceback, or the last lines where the parent tells of a command that failed. ``None`` means
    there is nothing."""
    near = max(0, end - NEAR_LINES)
    is_command = any(_COMMAND_FAILED in line for line in log[end:])
    begins = [n for n in range(max(0, end - TRACEBACK_LINES), end) if TRACEBACK in log[n]]
    for begin in reversed(begins):
        if _is_of_child(log, begin) or (is_command and begin >= near):
            return [_traceback_of_child(log[begin:end])]
    if is_command and near < end:
        return [Zone("last lines of a child process", log[near:end], is_log=True, is_child=True)]
    return []


def _launched_zones(log: Sequence[str], end: int) -> list[Zone]:
    """What the processes of a launcher printed before ``end``, where its traceback begins: their
    own tracebacks, the last one first, as far as they were not survived; else the last lines."""
    zones: list[Zone] = []
    limit = end
    for head in reversed(
        [n for n in range(max(0, end - TRACEBACK_LINES), end) if TRACEBACK in log[n]]
    ):
        if head >= limit:
            continue  # of a chain that is taken already
        body = range(head + 1, limit)
        says = next((n for n in body if log[n].strip() and not _is_frame(log[n])), limit)
        if limit - says > NEAR_LINES:
            break
        begin = _chain_begin(log, head)
        zones.append(_traceback_of_child(log[begin:limit]))
        limit = begin
    if zones or not end:
        return zones
    near = log[max(0, end - NEAR_LINES) : end]
    return [Zone("last lines of a child process", near, is_log=True, is_child=True)]


def _is_of_child(log: Sequence[str], begin: int) -> bool:
    """Whether the traceback there is that of a Python child process."""
    outermost = [line for line in log[begin + 1 : begin + 6] if line.startswith('  File "')][:2]
    is_child = any(file in frame for frame in outermost for file in _CHILD_FRAMES)
    return is_child or (begin > 0 and log[begin - 1].strip() == "Exception in initializer:")


def _traceback_of_child(lines: Sequence[str]) -> Zone:
    frames = [line for line in lines if line.startswith('  File "')][-INNERMOST_FRAMES:]
    near = [line for line in lines if not _is_frame(line)]
    return Zone("traceback of a child process", near, frames, is_log=True, is_child=True)


def _streams(evidence: ProcessEvidence, count: int) -> Sequence[Stream | None]:
    """Of each line of the log."""
    if not evidence.origins:
        return [None] * count
    return [origin.stream if origin else None for origin in evidence.origins]


_BYSTANDERS = ("Exception calling application", "Exception ignored in", "was never retrieved")
"""What a server, the interpreter or an event loop prints before a traceback that it has caught."""


def _last_traceback(log: Sequence[str]) -> int:
    """Where the last traceback begins that ended the process, as far as one sees; -1 means none. A
    server's thread may print one of its own after that."""
    begins = [number for number, line in enumerate(log) if TRACEBACK in line]
    for number in reversed(begins):
        before = log[number - 1] if number else ""
        if not any(text in before for text in _BYSTANDERS):
            return number
    return begins[-1] if begins else -1


_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)


def _chain_begin(log: Sequence[str], begin: int) -> int:
    """Where the first traceback of a chain begins whose last one begins at ``begin``."""
    while True:
        before = begin - 1
        while before >= 0 and not log[before].strip():
            before -= 1
        if before < 0 or log[before].strip() not in _CHAINED:
            return begin
        earlier = max((n for n in range(before) if TRACEBACK in log[n]), default=-1)
        if earlier < 0:
            return begin
        begin = earlier


def without_prefix(line: str) -> str:
    """Without the rank that torch and torchrun (``[rank0]: ``, ``[default0]:``), horovodrun and
    mpirun (``[1]<stderr>:``, ``[1,0]<stderr>:``) put before a line, and without the margin of an
    exception within a group (``  | ``)."""
    if tag := _STREAM_TAG.match(line):
        return _unspaced(line[tag.end() :])
    if not line.startswith("["):
        margin, bar, rest = line.partition("| ")
        return rest if bar and not margin.strip() else line
    for word in ("[rank", "[default"):
        number, bracket, rest = line.removeprefix(word).partition("]:")
        if line.startswith(word) and bracket and number.isdigit():
            return _unspaced(rest)
    return line


def _unspaced(rest: str) -> str:
    """Without the space that some launchers add to the prefix: Python indents by even numbers."""
    spaces = len(rest) - len(rest.lstrip(" "))
    return rest[1:] if spaces % 2 else rest


_STREAM_TAG = re.compile(r"(?:\w{3} \w{3} [\d ]\d [\d:]{8} \d{4})?\[[\d,]{1,12}\]<std(?:err|out)>:")
"""The time is horovodrun's, by its option."""


def _is_frame(line: str) -> bool:
    """A line of a traceback that quotes the program: whatever it says has not happened there."""
    return line.startswith(("    ", '  File "'))
