"""From the size that a user names to the tasks of a job's elastic role."""

from __future__ import annotations

from dataclasses import dataclass

from yarnam.errors import UsageError
from yarnam.model.job import JobSpec


@dataclass(frozen=True, slots=True)
class Scaled:
    """What a job was asked for: tasks of its elastic role and the GPUs of these; None for both:
    it chooses by itself."""

    role: str
    tasks: int | None
    gpus: int | None

    def __str__(self) -> str:
        if self.tasks is None:
            return "chooses its size by itself again"
        plural = "" if self.tasks == 1 else "s"
        gpus = f" ({self.gpus} GPU{'' if self.gpus == 1 else 's'})" if self.gpus else ""
        return f"noted the wish for {self.tasks} {self.role} task{plural}{gpus}"


def scaled(job: JobSpec, size: int | None) -> Scaled:
    """``size`` counts GPUs where the spec does, else tasks.

    Raises UsageError: the job is not elastic, or has no such size.
    """
    role = job.elastic_role
    if role is None or role.min_tasks is None:
        raise UsageError(
            f"{job.name} is not elastic: it has {job.tasks} tasks",
            hint="Submit it with a range, as in tasks: {min: 2, max: 4} or gpus: {min: 4, max: 16}",
        )
    if size is None:
        return Scaled(role.name, None, None)
    each = role.resources.gpus if job.elastic.counts_gpus else 1
    unit = "GPUs" if job.elastic.counts_gpus else f"{role.name} tasks"
    least, most = role.min_tasks * each, role.tasks * each
    if not least <= size <= most or size % each:
        steps = f" in steps of {each}" if each > 1 else ""
        raise UsageError(
            f"{job.name} can have {least} to {most} {unit}{steps}, not {size}",
            hint="The range is in the spec that it was submitted with.",
        )
    tasks = size // each
    return Scaled(role.name, tasks, tasks * role.resources.gpus)
