"""Converts the size that a user requests to tasks of the job's elastic role."""

from __future__ import annotations

from dataclasses import dataclass

from yarnam.core.model.job_spec import JobSpec
from yarnam.errors import UsageError


@dataclass(frozen=True, slots=True)
class RequestedSize:
    """A requested size: tasks of the elastic role and their GPUs; None for both: automatic."""

    role: str
    tasks: int | None
    gpus: int | None

    def __str__(self) -> str:
        if self.tasks is None:
            return "size is automatic again"
        plural = "" if self.tasks == 1 else "s"
        gpus = f" ({self.gpus} GPU{'' if self.gpus == 1 else 's'})" if self.gpus else ""
        return f"resize to {self.tasks} {self.role} task{plural}{gpus} requested"


def requested_size(job: JobSpec, size: int | None) -> RequestedSize:
    """``size`` counts GPUs where the spec does, else tasks. Raises UsageError: the job is not
    elastic, or has no such size."""
    role = job.elastic_role
    if role is None or role.min_tasks is None:
        raise UsageError(
            f"{job.name} is not elastic: it always has {job.tasks} tasks",
            hint="Submit it with a range: tasks: {min: 2, max: 4} or gpus: {min: 4, max: 16}.",
        )
    if size is None:
        return RequestedSize(role.name, None, None)
    each = role.resources.gpus if job.elastic.counts_gpus else 1
    unit = "GPUs" if job.elastic.counts_gpus else f"{role.name} tasks"
    least, most = role.min_tasks * each, role.tasks * each
    if not least <= size <= most or size % each:
        steps = f" in steps of {each}" if each > 1 else ""
        raise UsageError(
            f"{job.name} can have {least} to {most} {unit}{steps}, not {size}",
            hint="The range is set in its spec.",
        )
    tasks = size // each
    return RequestedSize(role.name, tasks, tasks * role.resources.gpus)
