"""The evidence that a failed process left behind, divided into zones for the failure rules to
match, nearest to the failure first.

If a traceback ends the log, rules skip distant evidence: the traceback names the reason itself, and
the process survived whatever it printed long before.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from yarnam.core.model.outcomes import Origin, Stream

SIGNALS = {one.name: int(one) for one in signal.Signals}
TRACEBACK = "Traceback (most recent call last)"

NEAR_LINES = 40
"""The last lines of a log that are near to its end: a screen."""

TRACEBACK_LINES = 250
"""A last traceback that began farther from the end than this was survived."""

INNERMOST_FRAMES = 8
"""Frames of a traceback that say where an exception comes from; the others led there."""


@dataclass(frozen=True, slots=True)
class ProcessEvidence:
    """The evidence that a failed process left behind. The collector bounds the texts."""

    code: int = 0
    signal: int = 0
    log: tuple[str, ...] = ()
    """Lines from the start and the end of the output, in order."""
    origins: tuple[Origin | None, ...] = ()
    """The origin of each line of ``log``; empty if unknown."""
    facts: tuple[str, ...] = ()
    """Findings of the agent itself: a full disk, a kill by the kernel for want of memory."""
    error_file: tuple[str, ...] = ()
    """The message in the framework's error file (``TORCHELASTIC_ERROR_FILE``)."""
    error_at_s: float | None = None
    """The time recorded in the error file."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A part of the evidence. ``name`` is for people."""

    name: str
    lines: Sequence[str]
    frames: Sequence[str] = ()
    """The innermost frames of a traceback."""
    is_log: bool = False
    is_child: bool = False
    """The zone holds output of a child process from before its parent's traceback, the last one."""
    is_before: bool = False
    """The lines before the last traceback: most of what they complain of was survived."""
    is_launcher: bool = False
    """The last traceback is that of a launcher whose process has failed."""


DUMP = "(most recent call first):"
"""The header that faulthandler writes before the stack of a thread when asked for a dump."""


def own_traceback(evidence: ProcessEvidence) -> tuple[ProcessEvidence, Origin | None] | None:
    """Return what a running process wrote up to the end of its last traceback, or its error file,
    and the origin of the traceback's first line; ``None`` if it wrote neither."""
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
    end = _launcher_begin(log)
    near, far = _log_zones(
        replace(evidence, log=evidence.log[:end], origins=evidence.origins[:end]), log[:end]
    )
    if end < len(log):
        launcher = Zone("words of the launcher", log[end:], is_log=True)
        near = [*(replace(zone, is_child=True) for zone in near), launcher]
    return [
        Zone("seen by the agent", evidence.facts),
        Zone("error file", [line for line in evidence.error_file if not _is_frame(line)]),
        *near,
        *far,
    ]


def _log_zones(evidence: ProcessEvidence, log: Sequence[str]) -> tuple[list[Zone], list[Zone]]:
    """The zones of the log near to the failure, and those far from it."""
    begin = _last_traceback(log)
    if begin >= 0 and begin >= len(log) - TRACEBACK_LINES:
        last = _traceback_zone(evidence, log, begin)
        children = _launched_zones if last.is_launcher else _child_zone
        chain = _chain_begin(log, begin)
        above = [] if last.is_launcher else _referred_to(last, log[:chain])
        before = Zone("before the last traceback", log[:chain], is_log=True, is_before=True)
        return [*_last_error(last), *above, last], [*children(log, chain), before]
    begin = max(0, len(log) - NEAR_LINES)
    streams = _streams(evidence, len(log))
    on_stderr = [
        line
        for line, stream in zip(log[begin:], streams[begin:], strict=True)
        if stream is Stream.STDERR
    ]
    near = [
        Zone("last lines on stderr", on_stderr, is_log=True),
        Zone("last lines", log[begin:], is_log=True),
    ]
    far = [Zone("earlier lines", log[:begin], is_log=True)]
    return near, [] if evidence.error_file else far


_LAUNCHER_BANNERS = (
    "Primary job  terminated normally",
    "mpirun detected that",
    "mpirun noticed that",
    "mpiexec detected that",
    "mpiexec noticed that",
    "prterun detected that",
    "prterun noticed that",
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
)
"""The first lines of what a launcher of MPI prints below the output of its processes."""


def _launcher_begin(log: Sequence[str]) -> int:
    """Return where the last words of a launcher of MPI begin; the length of the log if it has none
    or if a traceback follows them."""
    near = range(max(0, len(log) - NEAR_LINES), len(log))
    begin = next((n for n in near if log[n].startswith(_LAUNCHER_BANNERS)), len(log))
    is_last = not any(TRACEBACK in line for line in log[begin:])
    return begin if is_last else len(log)


def _last_error(zone: Zone) -> list[Zone]:
    """NCCL names the reason after ``Last error:``; the lines above it say only that it failed."""
    shown = [line.strip() for line in zone.lines]
    if "Last error:" not in shown:
        return []
    lines = [line for line in zone.lines[shown.index("Last error:") + 1 :] if line.strip()]
    return [Zone("NCCL's last error", lines[:1], is_log=True)] if lines else []


_REFERS_ABOVE = (
    "errors above for more",
    "error above for more",
    "message was printed above",
    "dnn library is not found",  # TensorFlow: why stands in a line of cuda_dnn.cc
)
"""Messages that give no reason: it was printed before them."""


def _referred_to(zone: Zone, before: Sequence[str]) -> list[Zone]:
    """The lines above a traceback, if that refers to them: these say why."""
    is_referring = any(word in line.lower() for line in zone.lines for word in _REFERS_ABOVE)
    if not is_referring or not before:
        return []
    return [replace(zone, name="above the last traceback", lines=before[-NEAR_LINES:], frames=())]


def _traceback_zone(evidence: ProcessEvidence, log: Sequence[str], begin: int) -> Zone:
    """Build the zone of the last traceback. Lines on stdout that follow a traceback on stderr are
    left out: they come from a buffer flushed at exit and were printed long before."""
    streams = _streams(evidence, len(log))
    is_on_stderr = streams[begin] is Stream.STDERR
    begin = _chain_begin(log, begin)
    lines = [
        line
        for line, stream in zip(log[begin:], streams[begin:], strict=True)
        if not (is_on_stderr and stream is Stream.STDOUT)
    ]
    lines = _without_bystanders(lines)
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


_TABLE_WORDS = (
    # torchrun, horovodrun, torch.multiprocessing.spawn
    re.compile(r"^\s*exitcode\s*: (?P<either>-?\d{1,3}) \(pid: "),
    re.compile(r"^Exit code: (?P<either>-?\d{1,3})$"),
    re.compile(r"ProcessExitedException: .* terminated with exit code (?P<code>\d{1,3})$"),
)
"""The words of launchers in their own traceback."""

_STATUS_WORDS = (
    # subprocess.run(check=True) of a wrapper in Python, and accelerate without torchrun.
    re.compile(r"CalledProcessError: Command .* died with <Signals\.\w+: (?P<signal>\d{1,2})>"),
    re.compile(r"CalledProcessError: Command .* returned non-zero exit status (?P<code>\d{1,3})"),
    # torch.multiprocessing.spawn
    re.compile(r"ProcessExitedException: .* terminated with signal (?P<name>SIG[A-Z]+)$"),
    # Open MPI's mpirun
    re.compile(r"^mpirun noticed that .* exited on signal (?P<signal>\d{1,2})\b"),
    re.compile(r"^\s+Exit code:\s+(?P<code>\d{1,3})$"),
    # MPICH's hydra: its EXIT CODE is the number of the signal where there was one.
    re.compile(r"^YOUR APPLICATION TERMINATED WITH THE EXIT STRING: .*\(signal (?P<signal>\d+)\)"),
    re.compile(r"^=\s+EXIT CODE: (?P<code>\d{1,3})$"),
    # Slurm's srun
    re.compile(r"^srun: error: \S+: tasks? [^:]+: Exited with exit code (?P<code>\d{1,3})$"),
    re.compile(r"^srun: error: \S+: tasks? [^:]+: (?P<words>[A-Z][a-zA-Z ]+?)( \(core dumped\))?$"),
    # DeepSpeed's launcher
    re.compile(r"\blaunch\.py:\d+:\w+\] .* exits with return code = (?P<either>-?\d{1,3})$"),
    # a shell, of a command that it ran
    re.compile(r"(^|: )line \d+:\s+\d+ (?P<words>[A-Z][a-z ]+?)( *\(core dumped\))?(\s{2,}|$)"),
)
"""The words in which launchers say how a process of theirs ended, the more telling ones first."""

_SIGNAL_WORDS = {
    "Hangup": 1, "Quit": 3, "Illegal instruction": 4, "Trace/breakpoint trap": 5, "Aborted": 6,
    "Bus error": 7, "Floating point exception": 8, "Killed": 9, "Segmentation fault": 11,
    "Terminated": 15, "Out Of Memory": 9,
}  # fmt: skip
"""strsignal(3) of Linux; and Slurm's word for a kill for want of memory."""


@dataclass(frozen=True, slots=True)
class ChildStatus:
    """How the process ended that a launcher names as the first to fail, with the line that names
    it. The launcher itself ends with 1, whatever its child has ended with."""

    code: int
    signal: int
    line: str


def child_status(evidence: ProcessEvidence, zones: Sequence[Zone]) -> ChildStatus | None:
    """How a launcher's process ended; ``None`` if no launcher names one that failed, or if the
    launcher itself was killed."""
    if evidence.signal:
        return None
    table = (line for zone in zones if zone.is_launcher for line in zone.lines)
    tail = [without_prefix(line) for line in evidence.log[-NEAR_LINES:]]
    found = chain(
        (_status_in(pattern, line) for line in table for pattern in _TABLE_WORDS),
        (_status_in(pattern, line) for pattern in _STATUS_WORDS for line in tail),
    )
    return next(filter(None, found), None)


def _status_in(pattern: re.Pattern[str], line: str) -> ChildStatus | None:
    match = pattern.search(line)
    if match is None:
        return None
    given = match.groupdict()
    if "words" in given:
        by = _SIGNAL_WORDS.get(given["words"].strip(), 0)
        return ChildStatus(0, by, line) if by else None
    if "name" in given:
        return ChildStatus(0, SIGNALS[given["name"]], line) if given["name"] in SIGNALS else None
    number = int(given.get("code") or given.get("either") or 0)
    by = int(given.get("signal") or max(-number, 0))
    return ChildStatus(max(number, 0), by, line) if number or by else None


def exception_line(line: str, zone: Zone) -> str:
    """Return the exception's own line if ``line`` is the header of a traceback in this zone: the
    header says nothing."""
    if TRACEBACK not in line:
        return line
    heads = [number for number, text in enumerate(zone.lines) if text == line]
    after = zone.lines[heads[-1] + 1 :] if heads else ()
    return next((text for text in after if text.strip() and not _is_margin(text)), line)


def _is_margin(line: str) -> bool:
    """Recognize the margin of an exception group: ``  +-+---------------- 1 ----------------``."""
    return line.strip().startswith("+")


_COMMAND_FAILED = "returned non-zero exit status"
"""The message of subprocess.CalledProcessError."""

_CHILD_FRAMES = ("/multiprocessing/", "/concurrent/futures/process.py", "/loky/")
"""Files in which the outermost frames of a Python child process lie."""


def _child_zone(log: Sequence[str], end: int) -> list[Zone]:
    """Find a child process's output before ``end``, where its parent's traceback begins: the
    child's traceback, or the last lines if the parent reports a failed command. The list is empty
    if there is neither."""
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
    """Find the output of a launcher's processes before ``end``, where the launcher's traceback
    begins: their own tracebacks that ended a process, the last one first; else the last lines."""
    zones: list[Zone] = []
    limit = end
    for head in reversed(
        [n for n in range(max(0, end - TRACEBACK_LINES), end) if TRACEBACK in log[n]]
    ):
        if head >= limit:
            continue  # belongs to a chain that is already a zone
        if _is_of_bystander(log, head):
            limit = head - 1
            continue
        body = range(head + 1, limit)
        says = next((n for n in body if log[n].strip() and not _is_frame(log[n])), limit)
        if limit - says > NEAR_LINES:
            break
        begin = _chain_begin(log, head)
        zone = _traceback_of_child(log[begin:limit])
        zones += [*_referred_to(zone, log[:begin]), zone]
        limit = begin
    if zones or not end:
        return zones
    near = log[max(0, end - NEAR_LINES) : end]
    return [Zone("last lines of a child process", near, is_log=True, is_child=True)]


def _is_of_child(log: Sequence[str], begin: int) -> bool:
    """Whether the traceback at ``begin`` comes from a Python child process."""
    outermost = [line for line in log[begin + 1 : begin + 6] if line.startswith('  File "')][:2]
    is_child = any(file in frame for frame in outermost for file in _CHILD_FRAMES)
    return is_child or (begin > 0 and log[begin - 1].strip() == "Exception in initializer:")


def _traceback_of_child(lines: Sequence[str]) -> Zone:
    frames = [line for line in lines if line.startswith('  File "')][-INNERMOST_FRAMES:]
    near = [line for line in lines if not _is_frame(line)]
    return Zone("traceback of a child process", near, frames, is_log=True, is_child=True)


def _streams(evidence: ProcessEvidence, count: int) -> Sequence[Stream | None]:
    """The stream of each line of the log."""
    if not evidence.origins:
        return [None] * count
    return [origin.stream if origin else None for origin in evidence.origins]


_BYSTANDERS = ("Exception calling application", "Exception ignored in", "was never retrieved")
"""Text that a server, the interpreter or an event loop prints before a traceback that it caught."""


def _last_traceback(log: Sequence[str]) -> int:
    """Return the line on which the last traceback that probably ended the process begins; -1 if the
    log has none. A server's thread may print another traceback after it."""
    begins = [number for number, line in enumerate(log) if TRACEBACK in line]
    for number in reversed(begins):
        if not _is_of_bystander(log, number):
            return number
    return begins[-1] if begins else -1


def _without_bystanders(lines: Sequence[str]) -> list[str]:
    """A traceback's lines without those that others printed below it."""
    kept: list[str] = []
    is_theirs = False
    for number, line in enumerate(lines):
        if TRACEBACK in line and kept and _is_of_bystander(lines, number):
            kept.pop()
            is_theirs = True
        elif not is_theirs:
            kept.append(line)
        else:
            is_theirs = _is_frame(line)
    return kept


def _is_of_bystander(log: Sequence[str], head: int) -> bool:
    return head > 0 and any(text in log[head - 1] for text in _BYSTANDERS)


_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)


def _chain_begin(log: Sequence[str], begin: int) -> int:
    """Return where a chain of tracebacks begins whose last one begins at ``begin``."""
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
    """Strip the rank that torch and torchrun (``[rank0]: ``, ``[default0]:``), horovodrun and
    mpirun (``[1]<stderr>:``, ``[1,0]<stderr>:``) put before a line, and the margin of an exception
    within a group (``  | ``)."""
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
    """Strip the space that some launchers add to the prefix: Python indents by even numbers."""
    spaces = len(rest) - len(rest.lstrip(" "))
    return rest[1:] if spaces % 2 else rest


_STREAM_TAG = re.compile(r"(?:\w{3} \w{3} [\d ]\d [\d:]{8} \d{4})?\[[\d,]{1,12}\]<std(?:err|out)>:")
"""horovodrun prefixes the time if its option asks for it."""


def _is_frame(line: str) -> bool:
    """Whether the line quotes the program in a traceback: the words in it did not happen there."""
    return line.startswith(("    ", '  File "'))
