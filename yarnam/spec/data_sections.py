"""Sections of the spec about data: inputs, outputs, checkpoints."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from yarnam.model.job import CheckpointSpec, DataInput, StagingSpec, StoringSpec
from yarnam.spec.fields import DurationBetween, Share, SizeBetween, Text, describe, wrong
from yarnam.spec.scalars import Ambiguous
from yarnam.spec.sections import DAY_S, Section, TextOrMapping, Whole

_CHECKPOINT = CheckpointSpec()
_INPUT = DataInput("", "")
_STAGING = StagingSpec()
_STORING = StoringSpec()


def _off(value: Any) -> Any:
    """`off` without quotes is text here: nothing else could be meant."""
    return str(value) if isinstance(value, Ambiguous) and value == "off" else value


class Input(TextOrMapping):
    """Data that the job reads. Refused at submit when it does not exist."""

    text_key = "path"
    later_keys = {
        "format": "formats of inputs",
    }

    path: Text
    """File or directory: a URI (`hdfs://`, `viewfs://`, `webhdfs://`, `swebhdfs://`) or an
    absolute path on the cluster's default filesystem. `*`, `?` and `[...]` stand for parts of a
    name; a pattern that fits a directory means all files below it. Names that begin with `_` or `.`
    are no data."""
    name: Text | None = None
    """Its name, as in `[a-z][a-z0-9_]*`. Default: the last part of `path` without its extension."""
    mode: Literal["stream", "localize", "cache"] = "stream"
    """`stream`: the training code reads it from where it is. `localize`: each node gets a copy
    before the processes start, which goes with the container. `cache`: the same, but the copy stays
    on the node for the user's next jobs: see [inputs on the nodes](../how-to/inputs.md)."""
    shard: Literal["none", "files"] = "none"
    """Which process reads which files, for code that asks `yarnam.train.inputs`, and which files a
    node gets a copy of. `none`: each process all of them. `files`: they are divided over the
    processes by size."""
    on_corrupt: Literal["fail", "skip", "quarantine"] = "fail"
    """What to do about files that are known to be corrupt (`yarnam blacklist`). `fail`: refuse the
    job, with the list. `skip`: leave them out; they are in `YARNAM_SKIPPED_<NAME>`. `quarantine`:
    leave them out, and move those that are proved corrupt away."""
    max_skipped: Share = _INPUT.max_skipped
    """The most that may be left out, of its files and of its bytes, as in `0.1 %`. More refuses the
    job."""
    verify: Annotated[Literal["off", "sample", "full"], BeforeValidator(_off)] = "off"
    """What is checked at submit, besides what is known already: nothing, 1 % of the files (20 to
    200 of them, always the same), or every file."""


def _outputs(value: Any) -> Any:
    if isinstance(value, list):
        raise wrong("not supported yet: several outputs; write one directory")
    return value


class Outputs(TextOrMapping):
    """Where the job's results go. Each task writes to a place of its own, the variable
    `YARNAM_OUTPUT` in its processes; when all have succeeded, what they wrote becomes this
    directory, all at once: see [outputs](../how-to/outputs.md)."""

    text_key = "path"

    path: Text
    """The directory (same forms as an input's `path`). It must not exist, or be empty: else the job
    is refused at submit."""
    replace: bool = _STORING.replace
    """An output that is there already gives way when the new one is whole."""
    on_failure: Literal["discard", "keep"] = "discard"
    """What becomes of the tasks' places when the job does not succeed. `discard`: nothing is left.
    `keep`: they are moved to `<path>.partial.<application>`."""
    timeout: Annotated[float, DurationBetween(1.0, 7 * DAY_S)] = _STORING.timeout_s
    """How long storing may take, from the end of the last process. No container is held then."""


class Data(Section):
    """What the job reads and writes."""

    inputs: list[Input] = []
    """What the job reads; each is the variable `YARNAM_INPUT_<NAME>` in its processes."""
    staging_timeout: Annotated[float, DurationBetween(1.0, 30 * DAY_S)] = _STAGING.timeout_s
    """Longest wait, once the gang stands, until all nodes have their copies of inputs with `mode:
    localize` or `cache`. The GPUs stand idle meanwhile."""
    cache_max_size: Annotated[int, SizeBetween(1, 1024**3)] | None = None
    """Of all copies that `mode: cache` leaves on one node for this user, over its disks. What was
    not used for the longest time gives way. Default: half of each disk."""
    outputs: Annotated[Outputs | None, BeforeValidator(_outputs)] = None
    """Where the job's results go, all at once when it has succeeded."""


class BestCheckpoints(TextOrMapping):
    """Checkpoints that stay for their metric."""

    text_key = "metric"

    metric: Text
    """Its name in `save(metrics=...)`."""
    mode: Literal["min", "max"] = "min"
    """Whether a small or a large value is good."""
    keep: Whole = _CHECKPOINT.best_keep
    """How many."""


class CheckpointSpool(Section):
    """Checkpoints that wait on the container's local disk while HDFS is in trouble."""

    limit: Annotated[float, DurationBetween(0.0, 7 * DAY_S)] = _CHECKPOINT.spool_limit_s
    """For how long, before the save fails. `0s`: none waits, a save fails after 30 s of trouble."""
    max_size: Annotated[int, SizeBetween(1, 1024**3)] | None = None
    """Of all that waits in one process. Default: until a tenth of the disk is left."""


def _restore(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10**9:
        return str(value)
    if value in ("newest", "none"):
        return value
    raise wrong(f"must be newest, none or a step, not {describe(value)}")


class Checkpoint(Section):
    """Where the training code keeps its checkpoints. All but `directory` is for code that uses
    `yarnam.train.checkpoint`."""

    directory: Text
    """A directory (same forms as an input's `path`); the variable `YARNAM_CHECKPOINT_DIR`."""
    keep: Whole = _CHECKPOINT.keep
    """How many of the newest checkpoints stay."""
    keep_every: Annotated[int, Field(ge=1, le=10**9)] | None = None
    """Of each so many steps, one checkpoint stays for good."""
    best: BestCheckpoints | None = None
    """Checkpoints that stay for their metric."""
    every: Annotated[int, Field(ge=1, le=10**9)] | None = None
    """Steps between two saves, for `is_due(step)`. Default: the code decides."""
    async_: Annotated[bool, Field(alias="async")] = _CHECKPOINT.in_background
    """Write in the background: the training waits only for the copy in memory."""
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
    """What the first attempt begins with: the `newest` checkpoint in the directory, `none`, or
    that of a step. Later attempts go on from what the job itself has saved."""
    spool: CheckpointSpool = CheckpointSpool()
    """Checkpoints that wait on the container's local disk while HDFS is in trouble."""
