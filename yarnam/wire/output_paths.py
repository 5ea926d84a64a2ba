"""Where a job's outputs are before they are whole, and the checkpoints of its pre-run. Pure.

::

    /results/my-job                                    the output, as the spec names it
    /results/.my-job.application_1_2                   hidden beside it while the job runs
    /results/.my-job.application_1_2/attempt-3/worker-0     what one task writes to
    /results/my-job.partial.application_1_2            what is kept of a job that did not succeed
"""

from __future__ import annotations

from hdfs_utils.uri import cut_name

_NOBODY = "job"


def staging_path(target: str, application: str) -> str:
    """A directory beside the output, of this application alone."""
    parent, _, name = target.rstrip("/").rpartition("/")
    return f"{parent}/{cut_name(f'.{name}', f'.{application or _NOBODY}')}"


def task_output_path(target: str, application: str, attempt: int, task: str) -> str:
    """Where one task of one attempt writes its output."""
    return f"{staging_path(target, application)}/attempt-{attempt}/{task}"


def pre_run_checkpoint_path(directory: str, application: str) -> str:
    """Where a pre-run keeps its checkpoints: in the job's own directory, so that this is tried too,
    under a name that no restore looks at."""
    return f"{directory.rstrip('/')}/.pre-run.{application or _NOBODY}"


def partial_output_path(target: str, application: str) -> str:
    """Where the outputs of a job are kept that did not succeed."""
    parent, _, name = target.rstrip("/").rpartition("/")
    return f"{parent}/{cut_name(name, f'.partial.{application or _NOBODY}')}"
