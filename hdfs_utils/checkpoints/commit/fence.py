"""Who may save: epochs that are claimed, and commits that an older epoch can no longer make.

A *token* says who a group of writers is: an owner (a YARN application) and a number that grows
with each of its attempts. An *epoch* is what the storage makes of it: rank 0 claims the next one
with an atomic rename that never replaces. All ranks of one attempt share the epoch.

Why a zombie cannot commit, however late it wakes up:

1. A claimer first makes its claim visible, then deletes the older epochs' directories of commits.
2. A commit is a rename of a manifest out of the writer's own directory of commits.
3. A writer puts its manifest there, *then* looks whether its claim is the newest, *then* renames.

If the manifest was put there before the deletion, the rename either came before it (the successor
sees a whole checkpoint) or finds nothing to rename. If it was put there after the deletion, the
look came after the claim, and there is no rename. So there is no moment between a check and a
rename in which a pause does harm.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from dataclasses import dataclass

from hdfs_utils import errors
from hdfs_utils import uri as uris
from hdfs_utils.checkpoints.format import layout
from hdfs_utils.filesystem import FileSystem

VARIABLE = "YARNAM_CHECKPOINT_TOKEN"
"""Set by yarnam in each process of a job: ``application_1763690000000_0012:3``."""

# Claims of the past that stay, so that a human can see who wrote here.
_HISTORY = 8
# Two concurrent claimers are two jobs on one directory. One of them succeeds in each round.
_MAX_ROUNDS = 20

_OWNER = re.compile(r"[A-Za-z0-9_-]{1,100}")
_ANONYMOUS = "process-"
_YARN = re.compile(r"application_([0-9]+)_([0-9]+)")


@dataclass(frozen=True, slots=True)
class Token:
    """Who writes.

    Attributes:
        owner: the YARN application, or any name of letters, digits, ``_`` and ``-``.
        attempt: grows with each attempt of this owner; several numbers are compared in turn.
    """

    owner: str
    attempt: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        if not _OWNER.fullmatch(self.owner) or not self.attempt or min(self.attempt) < 0:
            raise ValueError(f"{self.owner!r}, {self.attempt!r} is not an owner with its attempt")

    def __str__(self) -> str:
        return f"{self.owner}:{self.number}"

    @property
    def number(self) -> str:
        return ".".join(map(str, self.attempt))

    @property
    def is_anonymous(self) -> bool:
        """Whether it is that of a process outside of a job."""
        return self.owner.startswith(_ANONYMOUS)

    @classmethod
    def parse(cls, text: str) -> Token:
        """From ``owner:number`` or ``owner:number.number``. Raises ValueError."""
        owner, _, number = text.rpartition(":")
        return cls(owner, tuple(int(part) for part in number.split(".")))

    @classmethod
    def of_this_process(cls) -> Token:
        """That of the job's attempt, else one of its own: later processes come after it."""
        if text := os.environ.get(VARIABLE):
            return cls.parse(text)
        return cls(f"{_ANONYMOUS}{uuid.uuid4().hex[:12]}")

    def is_fenced_by(self, newest: Token) -> bool:
        """Whether ``newest``, which has claimed last, is the successor of this one.

        Of one application the higher attempt; of two applications of one ResourceManager the one
        that was submitted later. Others have no order but that of their claims.
        """
        if self.owner == newest.owner:
            return self.attempt < newest.attempt
        mine, other = _YARN.fullmatch(self.owner), _YARN.fullmatch(newest.owner)
        if mine is None or other is None or mine[1] != other[1]:
            return False
        return int(mine[2]) < int(other[2])


@dataclass(frozen=True, slots=True)
class EpochClaim:
    """An epoch and who has it."""

    epoch: int
    token: Token


def newest_claim(fs: FileSystem, root: str) -> EpochClaim | None:
    """The newest claim on a directory of checkpoints; None if nobody ever wrote here."""
    for path in reversed(_claimed(fs, root)):
        with contextlib.suppress(errors.NotFound):  # an old one, cleared away just now
            for status in fs.list(path):
                owner, _, number = uris.name(status.path).partition(".")
                token = Token(owner, tuple(int(part) for part in number.split(".")))
                return EpochClaim(int(uris.name(path)), token)
    return None


def _claimed(fs: FileSystem, root: str) -> list[str]:
    try:
        found = fs.list(uris.join(root, layout.FENCE))
    except errors.NotFound:
        return []
    return sorted(s.path for s in found if uris.name(s.path).isdigit())


@dataclass(frozen=True, slots=True)
class Fence:
    """The right to commit, until somebody newer claims it. Make one with :meth:`claim`."""

    fs: FileSystem
    root: str
    claim_: EpochClaim

    @property
    def epoch(self) -> int:
        return self.claim_.epoch

    @property
    def token(self) -> Token:
        return self.claim_.token

    @classmethod
    def claim(cls, fs: FileSystem, root: str, token: Token) -> Fence:
        """Claim the next epoch; all older ones can commit no more when this returns.

        The same token claims once: a second call gets the epoch that it has.

        Raises:
            Fenced: a successor of ``token`` was here before.
        """
        for _ in range(_MAX_ROUNDS):
            newest = newest_claim(fs, root)
            if newest is not None and token.is_fenced_by(newest.token):
                raise _fenced(root, newest, token)
            if newest is not None and newest.token == token:
                fence = cls(fs, root, newest)
                break
            claim = EpochClaim(newest.epoch + 1 if newest else 1, token)
            if _make(fs, root, claim):
                fence = cls(fs, root, claim)
                break
        else:
            message = "others claim this directory all the time; give each job its own"
            raise errors.FencedByAnother(message, path=root, operation="claim checkpoints")
        fence._revoke_older()
        return fence

    @classmethod
    def find(cls, fs: FileSystem, root: str, token: Token) -> Fence | None:
        """The claim that rank 0 made with this token; None if it has not yet.

        Raises:
            Fenced: a successor of ``token`` was here before.
        """
        newest = newest_claim(fs, root)
        if newest is None:
            return None
        if token.is_fenced_by(newest.token):
            raise _fenced(root, newest, token)
        return cls(fs, root, newest) if newest.token == token else None

    def check(self) -> None:
        """Raises Fenced if there is a newer claim."""
        newest = newest_claim(self.fs, self.root)
        if newest != self.claim_:
            raise _fenced(self.root, newest, self.token, f"epoch {self.epoch}, ")

    def commit(self, name: str, manifest: bytes) -> None:
        """Make the checkpoint ``name`` exist. Harmless to repeat with the same manifest.

        Raises:
            Fenced: a newer epoch was claimed; the checkpoint does not exist and never will.
            NotFound: the checkpoint's directory is gone.
            AlreadyExists: it exists, with another manifest.
        """
        staged = uris.join(self.root, layout.COMMITS, layout.epoch(self.epoch), f"{name}.json")
        target = uris.join(self.root, name, layout.MANIFEST)
        try:
            self.fs.write_bytes(staged, manifest, overwrite=True)
        except errors.HdfsError:
            self.check()  # the directory may have been taken away while it was written
            raise
        self.check()
        try:
            self.fs.rename(staged, target)
        except (errors.NotFound, errors.AlreadyExists, errors.Unavailable):
            # The first can also be the answer to a try before this one that did happen.
            with contextlib.suppress(errors.HdfsError):
                if self.fs.read_bytes(target) == manifest:
                    return
            self.check()
            raise

    def _revoke_older(self) -> None:
        commits = uris.join(self.root, layout.COMMITS)
        self.fs.mkdirs(commits)
        for status in self.fs.list(commits):
            name = uris.name(status.path)
            if name.isdigit() and int(name) < self.epoch:
                _delete(self.fs, status.path)
        for path in _claimed(self.fs, self.root)[:-_HISTORY]:
            with contextlib.suppress(errors.HdfsError):
                self.fs.delete(path, recursive=True)
        agreed = uris.join(self.root, layout.AGREE)
        with contextlib.suppress(errors.HdfsError):
            for status in self.fs.list(agreed):
                name = uris.name(status.path)
                if name.isdigit() and int(name) < self.epoch:
                    self.fs.delete(status.path, recursive=True)


def _delete(fs: FileSystem, path: str) -> None:
    """All of it: on a local disk a writer may add a file while the others are being deleted."""
    for _ in range(_MAX_ROUNDS):
        with contextlib.suppress(errors.DirectoryNotEmpty):
            fs.delete(path, recursive=True)
            return
    raise errors.DirectoryNotEmpty(
        "is written to all the time", path=path, operation="claim checkpoints"
    )


def _make(fs: FileSystem, root: str, claim: EpochClaim) -> bool:
    """Whether the claim is ours. No file and no block: directories alone take milliseconds."""
    directory = uris.join(root, layout.FENCE)
    draft = uris.join(directory, f".{uuid.uuid4().hex}")
    fs.mkdirs(uris.join(draft, f"{claim.token.owner}.{claim.token.number}"))
    try:
        fs.rename(draft, uris.join(directory, layout.epoch(claim.epoch)))
    except (errors.AlreadyExists, errors.DirectoryNotEmpty):
        fs.delete(draft, recursive=True)
        return False
    except errors.Unavailable:
        # Unknown whether it happened. If it did, the claim is found as our own and adopted.
        return False
    return True


def _fenced(root: str, newest: EpochClaim | None, mine: Token, which: str = "") -> errors.Fenced:
    holder = f"{newest.token} (epoch {newest.epoch})" if newest else "no job any more"
    message = f"these checkpoints belong to {holder} now: {which}{mine} must stop"
    if newest is None or newest.token.owner == mine.owner:
        return errors.Fenced(message, path=root, operation="checkpoint")
    message = f"{message}. Two jobs need two directories"
    return errors.FencedByAnother(message, path=root, operation="checkpoint")
