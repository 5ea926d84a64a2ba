"""How long the directory of an ended job stays on HDFS. Its history record outlives it."""

from __future__ import annotations

from dataclasses import dataclass

from yarnam.core.model.job_status import JobState

KEPT_S = 30 * 86400.0
"""From the end of the job on: long enough for a failure to be looked into after a holiday. The
period is our own choice. An idempotency key is remembered for longer."""


@dataclass(frozen=True, slots=True)
class JobDirectory:
    """Facts about the directory of one job. Times by HDFS's clock, in seconds since the epoch."""

    changed_at_s: float
    """The last change of anything in it, which is the end of the job or later."""
    is_over: bool | None
    """Whether the ResourceManager says so; ``None`` if it has no record of the application."""
    is_of_this_cluster: bool
    """Other clusters may share the file system, and this ResourceManager does not know their
    jobs."""
    is_in_history: bool
    has_verdict: bool
    state: JobState | None = None
    """In the last status that the job has left."""
    is_kept_forever: bool = False
    """By the job's own spec."""
    is_output_missing: bool = False
    """Whether it has an output that is not stored, or not known to be."""
    has_unfetched_results: bool = False
    """Whether a function has returned values that nobody has read."""
    foreign_names: tuple[str, ...] = ()
    """Entries that yarnam did not make: checkpoints, outputs or files of the user."""


def why_kept(directory: JobDirectory, now_s: float, kept_s: float = KEPT_S) -> str:
    """Why the directory has to stay; empty if it may be removed. ``now_s`` is HDFS's clock."""
    state = directory.state
    if directory.is_kept_forever:
        return "its spec says keep: forever"
    if directory.is_over is False:
        return "YARN still runs it"
    if directory.is_over is None and not directory.is_of_this_cluster:
        return "another cluster's ResourceManager has it"
    if not directory.has_verdict and (directory.is_over is None or state is JobState.SUSPENDED):
        return "it is suspended" if state is JobState.SUSPENDED else "it has no verdict"
    if not directory.is_in_history:
        return "the history has no record of it (yarnam history repair)"
    if directory.is_output_missing:
        return "its output is not stored"
    if directory.has_unfetched_results:
        return "the results of its functions were not fetched"
    if directory.foreign_names:
        return f"it has files of yours: {', '.join(directory.foreign_names[:3])}"
    if now_s - directory.changed_at_s < kept_s:
        return "it ended a short time ago"
    return ""
