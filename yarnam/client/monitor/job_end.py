"""The end of a job as an exception that carries its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.errors import ExitCode, Unavailable, YarnamError, error_classes

if TYPE_CHECKING:
    from yarnam.core.model.job_status import JobStatus


class JobEnded(YarnamError):
    """A job has ended without success. Each one is also of the class that its exit code stands
    for: ``except yarnam.errors.UserFailed`` catches what the job's own code did.
    """

    def __init__(
        self, message: str, *, hint: str = "", verdict: Verdict, application: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.verdict = verdict
        self.application = application
        """YARN's application id; empty if it is not known."""

    def __reduce__(self) -> tuple[Any, ...]:
        return error_of, (self.verdict, self.application)


class WaitTimeout(Unavailable, TimeoutError):
    """The job has not ended in the time given; it continues. ``status`` is its last status, None if
    none was to be had."""

    def __init__(self, message: str, *, hint: str = "", status: JobStatus | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


def error_of(verdict: Verdict, application: str = "") -> JobEnded | None:
    """The error that a verdict stands for; None when the job succeeded."""
    if verdict.kind is VerdictKind.SUCCEEDED:
        return None
    kind = _CLASSES.get(verdict.exit_code, _CLASSES[int(ExitCode.INTERNAL)])
    return kind(verdict.message, hint=verdict.hint, verdict=verdict, application=application)


def _with_verdict(kind: type[YarnamError]) -> type[JobEnded]:
    made = type(f"Job{kind.__name__}", (JobEnded, kind), {"__doc__": kind.__doc__})
    return cast("type[JobEnded]", made)


_CLASSES = {int(kind.exit_code): _with_verdict(kind) for kind in error_classes()}
