"""The training SDK: what training code may learn from the job it runs in, and report to it.

Optional: a job that never imports it works as well. It runs in the user's own Python (3.8 or
newer) and imports the standard library only. Outside a job everything is neutral: rank 0 of 1,
reports go nowhere, nothing asks it to stop. No call raises because the agent is away, except those
that document it::

    from yarnam import train

    for step in range(start, total):
        loss = ...
        train.report(step=step, total_steps=total, loss=loss)
        if train.should_stop(step):
            break  # write a checkpoint first: see yarnam.train.checkpoint
"""

from __future__ import annotations

from yarnam.train import checkpoint
from yarnam.train._frameworks.jax_start import initialize_jax
from yarnam.train._frameworks.lightning import lightning_options
from yarnam.train._inputs.excluded_files import ExcludedFilesUnknown, excluded_files, excluded_uris
from yarnam.train._inputs.file_shares import StatesMissing
from yarnam.train._inputs.inputs import Epoch, Inputs, Part, inputs
from yarnam.train._job.job_context import (
    attempt,
    checkpoint_directory,
    checkpoint_keep,
    input,  # noqa: A004 - train.input("digits") is the word
    is_chief,
    is_in_job,
    local_rank,
    output_directory,
    rank,
    world_size,
)
from yarnam.train._job.pre_run_end import is_pre_run
from yarnam.train._job.stop import StopRequest, should_stop, stop_request
from yarnam.train._reports.process_hooks import install_hooks as _install_hooks
from yarnam.train._reports.reporting import compute, pause, ready, report, request_size
from yarnam.train._reports.skipped_records import TooManySkipped, decoded, skip, skipped
from yarnam.train._tracking.tracking import tracking

_install_hooks()

__all__ = [
    "Epoch",
    "ExcludedFilesUnknown",
    "Inputs",
    "Part",
    "StatesMissing",
    "StopRequest",
    "TooManySkipped",
    "attempt",
    "checkpoint",
    "checkpoint_directory",
    "checkpoint_keep",
    "compute",
    "decoded",
    "excluded_files",
    "excluded_uris",
    "initialize_jax",
    "input",
    "inputs",
    "is_chief",
    "is_in_job",
    "is_pre_run",
    "lightning_options",
    "local_rank",
    "output_directory",
    "pause",
    "rank",
    "ready",
    "report",
    "request_size",
    "should_stop",
    "skip",
    "skipped",
    "stop_request",
    "tracking",
    "world_size",
]
