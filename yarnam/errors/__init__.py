"""The errors of yarnam, who is to blame for each, and its exit code.

::

    YarnamError
    ├── UsageError        64  user    the command line is wrong
    ├── BadSpec           65  user    the job spec is wrong: file, line, key, suggestion
    ├── Unavailable       69  infra   the RM, ZooKeeper or HDFS does not answer       (retryable)
    ├── InternalError     70  platform  internal error in yarnam
    ├── PathTaken         73  user    another job writes to the same directory
    ├── AttemptsExhausted 75  infra   every allowed attempt failed                    (retryable)
    ├── WireMismatch      76  platform  two incompatible versions of yarnam
    ├── NoPermission      77  platform  the cluster refuses this user
    ├── BadConfig         78  user    a setting or the Hadoop configuration is wrong
    ├── UserFailed        90  user    the job's own code failed
    ├── NeverFits         91  user    no cluster state could ever hold this gang
    ├── GangTimeout       92  infra   the gang could not be acquired in time          (retryable)
    ├── Cancelled         93  user    a user cancelled the job
    ├── DependencyFailed  94  user    a job that this one waits for cannot succeed any more
    └── TimeLimitReached  95  user    the job has run for its `time_limit`

64 to 78 keep the meaning that sysexits.h gives them. All codes stay below 126 (the shell's own),
clear of 10 to 12 (Skein's) and of 143 (SIGTERM), so that they cannot be confused.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import ClassVar


class Blame(Enum):
    """Who has to act on an error."""

    USER = "user"
    PLATFORM = "platform"
    INFRA = "infra"


class ExitCode(IntEnum):
    """The exit codes of ``yarnam`` (documented in docs/reference/exit-codes.md)."""

    OK = 0
    USAGE = 64
    BAD_SPEC = 65
    UNAVAILABLE = 69
    INTERNAL = 70
    PATH_TAKEN = 73
    ATTEMPTS_EXHAUSTED = 75
    WIRE_MISMATCH = 76
    NO_PERMISSION = 77
    BAD_CONFIG = 78
    USER_FAILED = 90
    NEVER_FITS = 91
    GANG_TIMEOUT = 92
    CANCELLED = 93
    DEPENDENCY_FAILED = 94
    TIME_LIMIT = 95


class YarnamError(Exception):
    """Base of every error that yarnam raises on purpose.

    ``message`` says what failed and where; ``hint`` what to do next. Adapters chain the cause
    (``raise ... from error``); only the shell (CLI, AM loop, agent loop) catches.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL
    retryable: ClassVar[bool] = False
    blame: ClassVar[Blame] = Blame.PLATFORM

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UsageError(YarnamError):
    """The command line is wrong."""

    exit_code = ExitCode.USAGE
    blame = Blame.USER


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """One thing wrong in a spec. ``line`` and ``column`` count from 1; 0 means the source has
    none."""

    source: str
    line: int
    column: int
    path: str
    """Where in the document, as in ``roles.worker.gpus``; empty means the document as a whole."""
    message: str

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}:{self.column}" if self.line else self.source
        return ": ".join(part for part in (place, self.path, self.message) if part)


class BadSpec(YarnamError):
    """The job spec is wrong; the message names file, line and key."""

    exit_code = ExitCode.BAD_SPEC
    blame = Blame.USER

    def __init__(
        self, message: str, *, hint: str = "", problems: tuple[SpecProblem, ...] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems


class Unavailable(YarnamError):
    """The ResourceManager, ZooKeeper or HDFS does not answer; or a local disk is full."""

    exit_code = ExitCode.UNAVAILABLE
    retryable = True
    blame = Blame.INFRA


class DiskFull(Unavailable):
    """A local disk, its quota or its table of inodes is full. Made by ``full_disks.disk_full``."""


class InternalError(YarnamError):
    """Internal error in yarnam; please report it."""

    exit_code = ExitCode.INTERNAL


class PathTaken(YarnamError):
    """Another job has claimed the directory for its checkpoints or outputs."""

    exit_code = ExitCode.PATH_TAKEN
    blame = Blame.USER

    def __init__(
        self, message: str, *, hint: str = "", spec_key: str = "", application: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.spec_key = spec_key
        """The key of the spec that names the directory, as in ``checkpoint.directory``."""
        self.application = application
        """The job of this user that may be taken over; empty if there is none."""


class AttemptsExhausted(YarnamError):
    """Every allowed attempt failed for reasons outside the user's code."""

    exit_code = ExitCode.ATTEMPTS_EXHAUSTED
    retryable = True
    blame = Blame.INFRA


class WireMismatch(YarnamError):
    """Two parts of yarnam have incompatible versions."""

    exit_code = ExitCode.WIRE_MISMATCH


class NoPermission(YarnamError):
    """The cluster refuses this user."""

    exit_code = ExitCode.NO_PERMISSION


class QuotaFull(NoPermission):
    """HDFS accepts no more data from this user: a quota is used up, or the disks are full. A caller
    that can wait may retry: somebody may free space meanwhile."""


class BadConfig(YarnamError):
    """A setting, or the Hadoop configuration, is missing or wrong; or the command does not work
    through the gateway that is set."""

    exit_code = ExitCode.BAD_CONFIG
    blame = Blame.USER


class NotThroughGateway(BadConfig):
    """The gateway does not serve what the command needs: it has to run inside the cluster."""


class UserFailed(YarnamError):
    """The job's own code failed: non-zero exit, signal, missing command."""

    exit_code = ExitCode.USER_FAILED
    blame = Blame.USER


class NeverFits(YarnamError):
    """No state of this cluster or queue could ever hold the gang."""

    exit_code = ExitCode.NEVER_FITS
    blame = Blame.USER


class GangTimeout(YarnamError):
    """The whole gang could not be acquired within the allowed attempts."""

    exit_code = ExitCode.GANG_TIMEOUT
    retryable = True
    blame = Blame.INFRA


class Cancelled(YarnamError):
    """A user cancelled the job."""

    exit_code = ExitCode.CANCELLED
    blame = Blame.USER


class DependencyFailed(YarnamError):
    """A job that this one waits for (`depends_on`) has failed or was cancelled."""

    exit_code = ExitCode.DEPENDENCY_FAILED
    blame = Blame.USER


class TimeLimitReached(YarnamError):
    """The job has run for as long as its `time_limit` allows."""

    exit_code = ExitCode.TIME_LIMIT
    blame = Blame.USER


def error_classes() -> tuple[type[YarnamError], ...]:
    """Every error class with an exit code of its own, for the table test and the generated docs."""
    return tuple(kind for kind in YarnamError.__subclasses__() if "exit_code" in vars(kind))
