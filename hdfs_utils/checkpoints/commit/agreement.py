"""All ranks of one attempt restore the same checkpoint, also when one of them cannot read it.

Rank 0 chooses and publishes its choice with one atomic rename, below the epoch that it claimed.
The others look for the epoch of their token and wait for the choice, so no rank ever lists
checkpoints on its own, and a manifest that appears between two listings changes nothing. Then each
rank reads its part and votes; if one of them could not, rank 0 sets the checkpoint aside and
chooses again. Directories carry it all: each step is one question to the NameNode.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from hdfs_utils import uri as uris
from hdfs_utils.checkpoints.format import layout
from hdfs_utils.errors import AlreadyExists, DirectoryNotEmpty, NotFound, Unavailable
from hdfs_utils.filesystem import FileSystem

T = TypeVar("T")

NONE = "none"
GOOD = "good"
BAD = "bad"
UNREADABLE = "unreadable"

FIRST_POLL_S = 0.05
MAX_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class AgreementRound:
    """One choice and the votes on it.

    Attributes:
        fs: where.
        root: the directory of checkpoints.
        epoch: that rank 0 claimed.
        number: which restore of this attempt, and which try of it.
    """

    fs: FileSystem
    root: str
    epoch: int
    number: str

    @property
    def directory(self) -> str:
        return uris.join(self.root, layout.AGREE, layout.epoch(self.epoch), self.number)

    def publish(self, choice: str | None) -> str | None:
        """Rank 0: publish its choice. Returns the first choice if one was published before."""
        draft = uris.join(self.directory, f".{uuid.uuid4().hex}")
        self.fs.mkdirs(uris.join(draft, choice or NONE))
        try:
            self.fs.rename(draft, uris.join(self.directory, "choice"))
        except (AlreadyExists, DirectoryNotEmpty):
            self.fs.delete(draft, recursive=True)
        found = self.choice()
        assert found is not None
        return found[0]

    def choice(self) -> tuple[str | None] | None:
        """The name of the checkpoint in a tuple of one; None while there is no choice yet."""
        with contextlib.suppress(NotFound):
            for status in self.fs.list(uris.join(self.directory, "choice")):
                name = uris.name(status.path)
                return (None if name == NONE else name,)
        return None

    def vote(self, rank: int, vote: str) -> None:
        """Publish how reading went."""
        self.fs.mkdirs(uris.join(self.directory, "votes", f"{rank:05d}-{vote}"))

    def votes(self) -> dict[int, str]:
        """The votes so far, by rank."""
        found = {}
        with contextlib.suppress(NotFound):
            for status in self.fs.list(uris.join(self.directory, "votes")):
                rank, _, vote = uris.name(status.path).partition("-")
                found[int(rank)] = vote
        return found


def poll_until(
    poll: Callable[[], T | None], limit_s: float, missing: Callable[[], str], path: str
) -> T:
    """Poll until there is a result.

    Raises:
        Unavailable: not within ``limit_s`` seconds; ``missing`` says what.
    """
    deadline = time.monotonic() + limit_s
    pause_s = FIRST_POLL_S
    while (found := poll()) is None:
        if time.monotonic() + pause_s > deadline:
            message = f"{missing()} within {limit_s:g} s; check that process"
            raise Unavailable(message, path=path, operation="agree on a checkpoint")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, MAX_POLL_S)
    return found
