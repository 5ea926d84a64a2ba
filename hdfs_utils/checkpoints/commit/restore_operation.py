"""One restore: choose, agree, read, vote; and again with an older one where that failed."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar, Union

from hdfs_utils import uri as uris
from hdfs_utils.checkpoints import catalog
from hdfs_utils.checkpoints.catalog import Report, SkippedCheckpoint
from hdfs_utils.checkpoints.commit.agreement import (
    BAD,
    GOOD,
    UNREADABLE,
    AgreementRound,
    poll_until,
)
from hdfs_utils.checkpoints.commit.fence import Fence
from hdfs_utils.checkpoints.commit.save_operation import Limits
from hdfs_utils.checkpoints.format import layout
from hdfs_utils.checkpoints.format.manifest import Checkpoint
from hdfs_utils.checkpoints.format.reader import OpenCheckpoint
from hdfs_utils.checkpoints.memory.memory_client import CheckpointMemory, ShardCopies
from hdfs_utils.concurrency.retry import retry
from hdfs_utils.errors import CorruptData, HdfsError, NotFound, PermissionDenied, Unavailable
from hdfs_utils.filesystem import FileSystem

T = TypeVar("T")

Problem = Union[CorruptData, NotFound, Unavailable]

# Errors of the NameNode while a DataNode is down. They do not prove that the file is bad.
_NO_PROOF = ("BlocksNotFound", "BlockMissing", "blocks not found", "Could not obtain block")


@dataclass(frozen=True, slots=True)
class StartPoint:
    """Which checkpoint a job begins with.

    Its own saves always come first: a further attempt continues from the saves of the attempts
    before it, whatever it began with.

    Attributes:
        is_fresh: begin without one.
        step: begin with the newest save of this step, or of any step if ``None``.
    """

    is_fresh: bool = False
    step: int | None = None

    @classmethod
    def parse(cls, text: str) -> StartPoint:
        """From ``newest``, ``none`` or a step. Raises ValueError."""
        if text in ("", "newest"):
            return NEWEST
        if text == "none":
            return cls(is_fresh=True)
        if text.isdigit():
            return cls(step=int(text))
        raise ValueError(f"{text!r} is not newest, none or a step")


NEWEST = StartPoint()


def is_proof(error: CorruptData) -> bool:
    """Whether the file is bad, and not only out of reach for now."""
    text = f"{error} {error.cause or ''}"
    return not any(part in text for part in _NO_PROOF)


@dataclass(frozen=True, slots=True)
class RestoreOperation:
    """The choices of a restore."""

    fence: Fence
    rank: int
    world_size: int
    start: StartPoint
    limits: Limits
    report: Report
    accept: Callable[[Checkpoint], bool] = lambda checkpoint: True
    memory: CheckpointMemory | None = None
    read_from: Counter[str] = field(default_factory=Counter)
    """Bytes read, by where they came from."""

    def run(self, number: int, read: Callable[[OpenCheckpoint], T]) -> tuple[Checkpoint, T] | None:
        """See :meth:`Checkpointer.restore`. ``number``: which restore of this process."""
        choices = self._choices() if self.rank == 0 else None
        out_of_reach: list[str] = []
        for attempt in range(10**6):
            chosen = next(choices, None) if choices is not None else None
            agreement_round = AgreementRound(
                self.fence.fs, self.fence.root, self.fence.epoch, f"{number}-{attempt}"
            )
            name = self._agreed(agreement_round, chosen)
            if name is None:
                self._check_none(out_of_reach)
                return None
            path = uris.join(self.fence.root, name)
            checkpoint, value, problem = self._read(path, read)
            verdict = self._voted(agreement_round, problem)
            if verdict == GOOD:
                assert checkpoint is not None
                return checkpoint, value[0]
            if verdict == UNREADABLE:
                out_of_reach.append(name)
            if self.rank == 0:
                self._give_up(path, verdict, problem)
        raise AssertionError("checkpoints never end")

    def _check_none(self, out_of_reach: list[str]) -> None:
        """To begin afresh because a DataNode is away would throw the training away."""
        if out_of_reach:
            message = f"cannot be read now, and no older one can: {', '.join(out_of_reach)}"
            raise Unavailable(message, path=self.fence.root, operation="restore")
        if self.start.step is not None:
            message = f"no whole checkpoint of step {self.start.step}; 'yarnam ckpt ls' shows all"
            raise NotFound(message, path=self.fence.root, operation="restore")

    def _agreed(self, agreement_round: AgreementRound, chosen: str | None) -> str | None:
        if self.world_size == 1:
            return chosen
        if self.rank == 0:
            return retry(lambda: agreement_round.publish(chosen), self.limits.patience_s)
        return poll_until(
            lambda: retry(agreement_round.choice, self.limits.patience_s),
            self.limits.agree_s,
            lambda: "rank 0 has chosen no checkpoint",
            agreement_round.directory,
        )[0]

    def _read(
        self, path: str, read: Callable[[OpenCheckpoint], T]
    ) -> tuple[Checkpoint | None, list[T], Problem | None]:
        fs = self.fence.fs

        def once() -> tuple[Checkpoint, T]:
            with catalog.pinned(fs, path, self.fence.epoch):
                catalog.wait_while_hidden(fs, path)
                checkpoint = catalog.read_manifest(fs, path)
                catalog.check_shards(fs, checkpoint)
                with self._copies(checkpoint) as copies:
                    opened = OpenCheckpoint(fs, checkpoint, copies)
                    value = read(opened)
                self.read_from.update(opened.read_from)
                return checkpoint, value

        try:
            checkpoint, value = retry(once, self.limits.patience_s)
        except (CorruptData, NotFound) as error:
            return None, [], error
        except Unavailable as error:
            if catalog.is_out_of_reach(fs, path, error):
                return None, [], error
            raise
        return checkpoint, [value], None

    @contextlib.contextmanager
    def _copies(self, checkpoint: Checkpoint) -> Iterator[ShardCopies | None]:
        if self.memory is None:
            yield None
            return
        fence = self.fence
        with contextlib.closing(
            ShardCopies(self.memory, f"{fence.fs.uri}{fence.root}", checkpoint)
        ) as copies:
            yield copies

    def _voted(self, agreement_round: AgreementRound, problem: Problem | None) -> str:
        mine = GOOD
        if isinstance(problem, CorruptData):
            mine = BAD if is_proof(problem) else UNREADABLE
        elif problem is not None:
            mine = UNREADABLE
        if self.world_size == 1:
            return mine
        retry(lambda: agreement_round.vote(self.rank, mine), self.limits.patience_s)
        seen: dict[int, str] = {}

        def all_votes() -> dict[int, str] | None:
            seen.update(retry(agreement_round.votes, self.limits.patience_s))
            return seen if len(seen) == self.world_size else None

        def missing() -> str:
            absent = [rank for rank in range(self.world_size) if rank not in seen]
            return f"ranks {absent[:8]} have not read {agreement_round.directory}"

        votes = poll_until(all_votes, self.limits.agree_s, missing, agreement_round.directory)
        found = set(votes.values())
        return next((vote for vote in (BAD, UNREADABLE) if vote in found), GOOD)

    def _give_up(self, path: str, verdict: str, problem: Problem | None) -> None:
        reason = str(problem) if problem is not None else "another rank could not read it"
        if verdict == BAD:
            self._set_aside(path, reason)
        else:
            self.report(SkippedCheckpoint(path, reason))

    def _set_aside(self, path: str, reason: str) -> None:
        try:
            aside = retry(lambda: catalog.set_aside(self.fence.fs, path), self.limits.patience_s)
        except PermissionDenied:  # somebody who may only read
            self.report(SkippedCheckpoint(path, reason))
        else:
            self.report(SkippedCheckpoint(aside, reason, was=path))

    def _choices(self) -> Iterator[str]:
        """Names from the first choice to the last."""
        fs, root = self.fence.fs, self.fence.root
        found = retry(lambda: catalog.candidates(fs, root), self.limits.patience_s)
        known: list[tuple[str, Checkpoint]] = []
        for status in found:
            # By the first that fits: the manifests of all others need not be read.
            checkpoint = self._manifest(fs, status.path)
            if checkpoint is None or not self.accept(checkpoint):
                continue
            if checkpoint.writer.get("owner") == self.fence.token.owner or self.start == NEWEST:
                yield uris.name(status.path)
            else:
                known.append((uris.name(status.path), checkpoint))
        for name, checkpoint in known:
            if not self.start.is_fresh and checkpoint.step == self.start.step:
                yield name

    def _clear_dead(self, fs: FileSystem, path: str) -> None:
        """An unfinished save of an older epoch: its writer was fenced and cannot finish it."""
        name = layout.parse(path)
        if name is not None and name.epoch < self.fence.epoch:
            with contextlib.suppress(HdfsError):
                catalog.remove(fs, path, self.fence.epoch)

    def _manifest(self, fs: FileSystem, path: str) -> Checkpoint | None:
        try:
            return retry(lambda: catalog.read_manifest(fs, path), self.limits.patience_s)
        except NotFound:
            self.report(SkippedCheckpoint(path, f"unfinished: it has no {layout.MANIFEST}"))
            self._clear_dead(fs, path)
        except CorruptData as error:
            if is_proof(error):
                self._set_aside(path, str(error))
            else:
                self.report(SkippedCheckpoint(path, str(error)))
        return None
