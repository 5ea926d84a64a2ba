"""Where the event files of a job are that TensorBoard shows."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from yarnam.client.site import Site, file_system_of
from yarnam.core.model.job_spec import JobSpec
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.errors import UsageError
from yarnam.wire.output_paths import partial_output_path, staging_path

VARIABLE = "TENSORBOARD_LOGGING_DIR"
"""The variable as Hugging Face's Trainer uses it: the directory in the spec's ``env``."""

_HINT = (
    f"Name the directory on HDFS: --logdir, or {VARIABLE} in the spec's `env`, or let the job "
    "write to its `data.outputs`."
)


def event_directory(
    site: Site, spec: JobSpec, status: Callable[[], JobStatus], logdir: str = ""
) -> str:
    """URI of the directory on HDFS: ``logdir``, else the one of ``VARIABLE`` in the job's spec,
    else the job's outputs, hidden while it runs. Raises UsageError if there is none, or if it is on
    the nodes' own disks; YarnamError."""
    variable = "" if logdir else _variable(spec)
    named = logdir or variable or _outputs(spec, status())
    parts = urlsplit(named)
    # The program itself defines the variable's value: a plain path is on its node's disk.
    is_local = parts.scheme == "file" or (not parts.scheme and named == variable)
    if is_local or not (parts.scheme or named.startswith("/")):
        raise UsageError(f"{named} is not a directory on HDFS", hint=_HINT)
    files, path = file_system_of(site, named)
    return named if parts.netloc else f"{files.uri.rstrip('/')}{path}"


def _variable(spec: JobSpec) -> str:
    given = (spec.env, *(role.env for role in spec.roles))
    return next((value for env in given for name, value in env if name == VARIABLE), "")


def _outputs(spec: JobSpec, status: JobStatus) -> str:
    if not spec.output:
        raise UsageError(f"{status.application} writes no outputs", hint=_HINT)
    if status.state is JobState.SUCCEEDED:
        return spec.output
    if not status.state.is_final:
        return staging_path(spec.output, status.application)
    if not spec.storing.keep_on_failure:
        raise UsageError(
            f"{status.application} has not succeeded, and its outputs are deleted",
            hint="To keep those of the next one: `keep_on_failure` of `data.outputs`.",
        )
    return partial_output_path(spec.output, status.application)
