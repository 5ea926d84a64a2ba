"""Clearing away what retention does not keep: after a commit, by rank 0, or on demand."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from hdfs_utils import uri as uris
from hdfs_utils.checkpoints import catalog
from hdfs_utils.checkpoints.catalog import (
    CheckpointListing,
    CheckpointState,
    Report,
    SkippedCheckpoint,
)
from hdfs_utils.checkpoints.commit.fence import Fence, newest_claim
from hdfs_utils.checkpoints.format import layout
from hdfs_utils.checkpoints.format.layout import CheckpointName
from hdfs_utils.checkpoints.format.manifest import Checkpoint
from hdfs_utils.checkpoints.retention import Retention, RetentionCandidate, kept
from hdfs_utils.errors import CorruptData, HdfsError, NotFound
from hdfs_utils.filesystem import FileSystem


@dataclass
class MetricsCache:
    """Metrics of whole checkpoints that were seen before: a manifest never changes."""

    metrics: dict[str, dict[str, float]] = field(default_factory=dict)


def prune(
    fence: Fence,
    saved: Checkpoint,
    retention: Retention,
    known: MetricsCache,
    pending: Collection[str],
) -> list[str]:
    """Clear away; gives the paths that are gone.

    Args:
        fence: of this writer. Unfinished saves of older epochs can never be finished.
        saved: the checkpoint that was just committed.
        retention: what stays.
        known: remembered from call to call.
        pending: names of this writer's saves that are under way.

    Raises:
        HdfsError: some of it is still there.
    """
    fs, root = fence.fs, fence.root
    # A writer that was fenced since must not judge what its successor does.
    fence.check()
    candidates, unfinished = _sorted_out(fs, root, known)
    known.metrics[uris.name(saved.path)] = dict(saved.metrics)
    stays = {str(name) for name in kept(candidates, retention)} | {uris.name(saved.path)}
    gone = []
    for whole in candidates:
        path = uris.join(root, str(whole.name))
        if str(whole.name) not in stays and catalog.remove(fs, path, fence.epoch):
            known.metrics.pop(str(whole.name), None)
            gone.append(path)
    saved_name = layout.parse(saved.path)
    assert saved_name is not None
    for name in unfinished:
        # Of this epoch: an older save than the one that was just committed was given up.
        is_dead = name.epoch < fence.epoch or (
            name.epoch == fence.epoch and name.order < saved_name.order
        )
        path = uris.join(root, str(name))
        if is_dead and str(name) not in pending and catalog.remove(fs, path, fence.epoch):
            gone.append(path)
    empty_trash(fs, root, fence.epoch)
    return gone


def _sorted_out(
    fs: FileSystem, root: str, known: MetricsCache
) -> tuple[list[RetentionCandidate], list[CheckpointName]]:
    candidates, unfinished = [], []
    for status in catalog.candidates(fs, root):
        name = layout.parse(status.path)
        assert name is not None
        try:
            candidates.append(RetentionCandidate(name, _metrics(fs, status.path, known)))
        except NotFound:
            unfinished.append(name)
        except CorruptData:
            continue  # a restore sets it aside; it does not count as one that is kept
    return candidates, unfinished


def _metrics(fs: FileSystem, path: str, known: MetricsCache) -> dict[str, float]:
    name = uris.name(path)
    if name not in known.metrics:
        known.metrics[name] = dict(catalog.read_manifest(fs, path).metrics)
    elif not fs.exists(uris.join(path, layout.MANIFEST)):
        known.metrics.pop(name)
        raise NotFound("is gone", path=path, operation="clear")
    return known.metrics[name]


def empty_trash(fs: FileSystem, root: str, epoch: int = 0) -> None:
    """The rest of an interrupted deletion."""
    trash = uris.join(root, layout.TRASH)
    with contextlib.suppress(NotFound):
        for status in fs.list(trash):
            if not catalog.is_pinned(fs, uris.join(root, uris.name(status.path)), epoch):
                with contextlib.suppress(HdfsError):
                    fs.delete(status.path, recursive=True)


@dataclass(frozen=True, slots=True)
class PruneDecision:
    """What pruning does with one directory.

    Attributes:
        listing: the directory.
        goes: whether it is to be deleted.
        why: the reason for either.
        is_gone: whether it has been deleted.
    """

    listing: CheckpointListing
    goes: bool
    why: str
    is_gone: bool = False


def prune_listed(
    fs: FileSystem,
    found: Sequence[CheckpointListing],
    root: str,
    retention: Retention,
    *,
    with_set_aside: bool,
    verify: Callable[[FileSystem, Checkpoint], None] | None,
    report: Report,
) -> list[PruneDecision]:
    """Decide as ``hdfs_utils.checkpoints.prune`` says, and delete if ``verify`` is given."""
    if verify is not None:
        found = _with_a_proved_one(fs, found, verify, report)
    claim = newest_claim(fs, root)
    epoch = claim.epoch if claim else 0
    candidates = [
        RetentionCandidate(one.name, one.checkpoint.metrics)
        for one in found
        if one.state is CheckpointState.WHOLE and one.checkpoint is not None
    ]
    reasons = kept(candidates, retention)
    decisions = []
    for one in found:
        if one.state is CheckpointState.WHOLE:
            goes, why = one.name not in reasons, reasons.get(one.name, "not selected to keep")
        elif one.state is CheckpointState.UNFINISHED:
            goes, why = one.name.epoch < epoch, "unfinished"
        else:
            goes = one.state is CheckpointState.SET_ASIDE and with_set_aside
            why = one.state.value
        if goes and catalog.is_pinned(fs, one.path):
            goes, why = False, "in use"
        is_gone = goes and verify is not None and catalog.remove(fs, one.path)
        decisions.append(PruneDecision(one, goes, why, is_gone))
    return decisions


def _with_a_proved_one(
    fs: FileSystem,
    found: Sequence[CheckpointListing],
    verify: Callable[[FileSystem, Checkpoint], None],
    report: Report,
) -> list[CheckpointListing]:
    """The same, down to the newest whole one whose data is read and good; those before it whose
    data is not count as torn."""
    judged = list(found)
    for number, one in enumerate(found):
        if one.state is not CheckpointState.WHOLE or one.checkpoint is None:
            continue
        try:
            with catalog.pinned(fs, one.path):
                verify(fs, one.checkpoint)
            break
        except (CorruptData, NotFound) as error:
            report(SkippedCheckpoint(one.path, str(error)))
            judged[number] = replace(one, state=CheckpointState.TORN, reason=str(error))
    return judged
