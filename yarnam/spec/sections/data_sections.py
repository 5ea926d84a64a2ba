"""Sections of the spec about data: inputs, outputs, checkpoints."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from yarnam.core.model.job_spec import CheckpointSpec, DataInput, StagingSpec, StoringSpec
from yarnam.spec.sections.section_base import DAY_S, Section, TextOrMapping, Whole
from yarnam.spec.values.fields import (
    DurationBetween,
    Share,
    SizeBetween,
    Text,
    describe,
    text_off,
    wrong,
)

_CHECKPOINT = CheckpointSpec()
_INPUT = DataInput("", "")
_STAGING = StagingSpec()
_STORING = StoringSpec()


class Input(TextOrMapping):
    """Data that the job reads. Submit fails if it does not exist."""

    text_key = "path"
    refused_keys = {"format": "told from the names and the first bytes of the files"}

    path: Text
    """File or directory: a URI (`hdfs://`, `viewfs://`, `webhdfs://`, `swebhdfs://`) or an
    absolute path on the cluster's default filesystem. `*`, `?` and `[...]` match parts of a
    name; a pattern that matches a directory includes all files below it. Names that begin with `_`
    or `.` are ignored."""
    name: Text | None = None
    """The input's name (`[a-z][a-z0-9_]*`). Default: the last part of `path` without extension."""
    mode: Literal["stream", "localize", "cache"] = "stream"
    """`stream`: the training code reads it directly. `localize`: each node gets a copy before the
    processes start, which is deleted with the container. `cache`: the same, but the copy stays on
    the node for your next jobs: see [inputs on the nodes](../how-to/inputs.md)."""
    shard: Literal["none", "files"] = "none"
    """Which process reads which files, for code that uses `yarnam.train.inputs`, and which files
    are copied to a node. `none`: each process reads all of them. `files`: the files are divided
    among the processes by size."""
    on_corrupt: Literal["fail", "skip", "quarantine"] = "fail"
    """How to treat files known to be corrupt (`yarnam blacklist`). `fail`: refuse the job and list
    them. `skip`: exclude them and list them in `YARNAM_SKIPPED_<NAME>`. `quarantine`: exclude them,
    and move those proved corrupt out of the way."""
    max_skipped: Share = _INPUT.max_skipped
    """The largest percentage of its files and of its bytes that may be excluded, as in `0.1 %`. The
    job fails if it is exceeded."""
    verify: Annotated[Literal["off", "sample", "full"], BeforeValidator(text_off)] = "off"
    """Which files to check at submit, besides the blacklist: none, 1 % of the files (20 to 200,
    always the same ones), or all."""


def _outputs(value: Any) -> Any:
    if isinstance(value, list):
        raise wrong("a job commits one directory; write several below it")
    return value


class Outputs(TextOrMapping):
    """Where the job's results go. Each task writes to a separate directory, named by the variable
    `YARNAM_OUTPUT`. When all tasks have succeeded, their files appear in this directory together:
    see [outputs](../how-to/outputs.md)."""

    text_key = "path"

    path: Text
    """The directory (same forms as an input's `path`). It must not exist or must be empty;
    otherwise submit fails."""
    replace: bool = _STORING.replace
    """Replace an existing output when the new one is complete."""
    on_failure: Literal["discard", "keep"] = "discard"
    """How to treat the tasks' files if the job does not succeed. `discard`: delete them. `keep`:
    move them to `<path>.partial.<application>`."""
    timeout: Annotated[float, DurationBetween(1.0, 7 * DAY_S)] = _STORING.timeout_s
    """The longest time to store the output, from the end of the last process. No container is held
    meanwhile."""


class Data(Section):
    """The job's inputs and outputs."""

    inputs: list[Input] = []
    """The inputs of the job; the variable `YARNAM_INPUT_<NAME>` holds the path of each."""
    staging_timeout: Annotated[float, DurationBetween(1.0, 30 * DAY_S)] = _STAGING.timeout_s
    """The longest time to copy inputs with `mode: localize` or `cache` to the nodes, once the gang
    is complete. The GPUs are idle meanwhile."""
    cache_max_size: Annotated[int, SizeBetween(1, 1024**3)] | None = None
    """The size limit of the copies that `mode: cache` keeps on one node for this user. The least
    recently used ones are evicted. Default: half of each disk."""
    outputs: Annotated[Outputs | None, BeforeValidator(_outputs)] = None
    """Where the job's results go; they appear together when the job has succeeded."""


class BestCheckpoints(TextOrMapping):
    """Checkpoints to keep for their metric."""

    text_key = "metric"

    metric: Text
    """The name of the metric in `save(metrics=...)`."""
    mode: Literal["min", "max"] = "min"
    """Whether the smallest or the largest value is best."""
    keep: Whole = _CHECKPOINT.best_keep
    """The number of checkpoints."""


class CheckpointSpool(Section):
    """Checkpoints that wait on the container's local disk while HDFS is unavailable."""

    limit: Annotated[float, DurationBetween(0.0, 7 * DAY_S)] = _CHECKPOINT.spool_limit_s
    """How long a checkpoint may wait before the save fails. `0s`: no spooling; a save fails after
    30 s without HDFS."""
    max_size: Annotated[int, SizeBetween(1, 1024**3)] | None = None
    """The size limit of waiting checkpoints per process. Default: until 10 % of the disk is
    left."""


def _restore(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10**9:
        return str(value)
    if value in ("newest", "none"):
        return value
    raise wrong(f"must be newest, none or a step number, not {describe(value)}")


class Checkpoint(Section):
    """Where the training code keeps its checkpoints. A program that writes them as files, by
    `torch.save` for instance, needs `mirror`; `keep` and `restore` apply to both ways, the other
    keys to code that uses `yarnam.train.checkpoint`."""

    directory: Text
    """The directory (same forms as an input's `path`); the variable `YARNAM_CHECKPOINT_DIR` holds
    it. It belongs to one job at a time: until that job ends, submit refuses another."""
    mirror: Text | None = None
    """A directory below the working directory, as in `ckpt/`: yarnam keeps its files on HDFS and
    brings them back before a restart. See [programs that write
    files](../how-to/checkpoints.md#programs-that-write-files)."""
    mirror_from: Literal["rank-0", "each"] = "rank-0"
    """Which tasks have a directory that is kept: the one of rank 0, or `each`, separately."""
    keep: Whole = _CHECKPOINT.keep
    """The number of newest checkpoints to keep."""
    keep_every: Annotated[int, Field(ge=1, le=10**9)] | None = None
    """Keep one checkpoint permanently for every this many steps."""
    best: BestCheckpoints | None = None
    """Checkpoints to keep for their metric."""
    every: Annotated[int, Field(ge=1, le=10**9)] | None = None
    """The number of steps between saves, for `is_due(step)`. Default: the code decides."""
    async_: Annotated[bool, Field(alias="async")] = _CHECKPOINT.in_background
    """Write in the background: training waits only for the copy in memory."""
    memory: bool = _CHECKPOINT.in_memory
    """Keep each save also in the memory of its node, and a copy of it in that of another node, so
    that a restart reads it from there. Copies take at most half of each container's memory. See
    [checkpoints in memory](../how-to/checkpoints.md#checkpoints-in-memory)."""
    restore: Annotated[
        str,
        BeforeValidator(_restore),
        WithJsonSchema(
            {
                "anyOf": [
                    {"enum": ["newest", "none"]},
                    {"type": "integer", "minimum": 0, "maximum": 10**9},
                ]
            }
        ),
    ] = _CHECKPOINT.restore
    """The checkpoint that the first attempt restores: the `newest` checkpoint in the directory,
    `none`, or the one of a step. Later attempts resume from the checkpoints that the job itself has
    saved."""
    spool: CheckpointSpool = CheckpointSpool()
    """Checkpoints that wait on the container's local disk while HDFS is unavailable."""


WILDCARDS = "*?["


def split_pattern(path: str) -> tuple[str, str]:
    """The directory that a pattern begins in, and the pattern below it; without wildcards the
    path itself and nothing."""
    parts = path.rstrip("/").split("/")
    for number, part in enumerate(parts):
        if any(char in part for char in WILDCARDS):
            return "/".join(parts[:number]) or "/", "/".join(parts[number:])
    return path, ""
