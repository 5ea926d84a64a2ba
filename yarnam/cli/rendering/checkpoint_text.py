"""Checkpoints as text and as JSON, for ``yarnam ckpt``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from yarnam.cli.rendering.console import clock_time

if TYPE_CHECKING:
    from hdfs_utils import FileSystem
    from hdfs_utils.checkpoints import Checkpoint
    from hdfs_utils.checkpoints.catalog import CheckpointListing


def verdict_row(verdict: dict[str, Any], is_done: bool) -> Sequence[str]:
    """A row of the table of `prune`."""
    words = "keep"
    if verdict["goes"]:
        words = "would delete" if not is_done else "deleted" if verdict["is_gone"] else "in use"
    size = size_text(verdict["bytes"])
    return (str(verdict["step"]), size, words, verdict["why"], verdict["name"])


def row(one: CheckpointListing) -> Sequence[str]:
    """A row of the table of `ls`."""
    checkpoint = one.checkpoint
    if checkpoint is None:
        return (
            str(one.name.step),
            one.state.value,
            "-",
            size_text(one.size),
            *"---",
            short(one.path),
        )
    return (
        str(one.name.step),
        one.state.value,
        str(checkpoint.world_size),
        size_text(one.size),
        clock_time(checkpoint.saved_ms / 1000),
        _writer(checkpoint),
        " ".join(f"{name}={value:.4g}" for name, value in checkpoint.metrics.items()) or "-",
        short(one.path),
    )


def _writer(checkpoint: Checkpoint) -> str:
    owner = checkpoint.writer.get("owner", "?")
    if owner.startswith("process-"):
        return f"{owner} on {checkpoint.writer.get('host', '?')}"
    return f"{owner} attempt {checkpoint.writer.get('attempt', '?')}"


def as_plain(fs: FileSystem, one: CheckpointListing) -> dict[str, Any]:
    """For JSON: a checkpoint directory, complete or not."""
    known = {} if one.checkpoint is None else facts(fs, one.checkpoint)
    own = {"name": short(one.path), "path": f"{fs.uri}{one.path}", "step": one.name.step}
    return {**known, **own, "state": one.state.value, "reason": one.reason, "bytes": one.size}


def facts(fs: FileSystem, checkpoint: Checkpoint) -> dict[str, Any]:
    """For JSON: the contents of a manifest."""
    return {
        "name": short(checkpoint.path),
        "path": f"{fs.uri}{checkpoint.path}",
        "step": checkpoint.step,
        "epoch": checkpoint.epoch,
        "world_size": checkpoint.world_size,
        "bytes": checkpoint.size,
        "saved_ms": checkpoint.saved_ms,
        "writer": dict(checkpoint.writer),
        "metrics": dict(checkpoint.metrics),
        "metadata": dict(checkpoint.metadata),
        "values": list(checkpoint.names),
    }


def short(path: str) -> str:
    """The name of a checkpoint."""
    return path.rpartition("/")[2]


def size_text(size: float) -> str:
    """As in ``512 B``, ``1.5 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
