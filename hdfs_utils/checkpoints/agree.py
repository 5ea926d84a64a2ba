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
from hdfs_utils.checkpoints import names
from hdfs_utils.errors import AlreadyExists, DirectoryNotEmpty, NotFound, Unavailable
from hdfs_utils.filesystem import FileSystem

T = TypeVar("T")

NONE = "none"
GOOD = "good"
BAD = "bad"
UNREADABLE = "unreadable"

FIRST_LOOK_S = 0.05
SLOWEST_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class Round:
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
    def place(self) -> str:
        """Its directory."""
        return uris.join(self.root, names.AGREE, names.epoch(self.epoch), self.number)

    def publish(self, choice: str | None) -> str | None:
        """Rank 0: tell the others. Gives what was published first, if that was done before."""
        draft = uris.join(self.place, f".{uuid.uuid4().hex}")
        self.fs.mkdirs(uris.join(draft, choice or NONE))
        try:
            self.fs.rename(draft, uris.join(self.place, "choice"))
        except (AlreadyExists, DirectoryNotEmpty):
            self.fs.delete(draft, recursive=True)
        found = self.choice()
        assert found is not None
        return found[0]

    def choice(self) -> tuple[str | None] | None:
        """The name of the checkpoint in a tuple of one; None while there is no choice yet."""
        with contextlib.suppress(NotFound):
            for status in self.fs.list(uris.join(self.place, "choice")):
                name = uris.name(status.path)
                return (None if name == NONE else name,)
        return None

    def vote(self, rank: int, vote: str) -> None:
        """Say how reading went."""
        self.fs.mkdirs(uris.join(self.place, "votes", f"{rank:05d}-{vote}"))

    def votes(self) -> dict[int, str]:
        """Those that are in."""
        found = {}
        with contextlib.suppress(NotFound):
            for status in self.fs.list(uris.join(self.place, "votes")):
                rank, _, vote = uris.name(status.path).partition("-")
                found[int(rank)] = vote
        return found


def wait_for(
    look: Callable[[], T | None], limit_s: float, missing: Callable[[], str], path: str
) -> T:
    """Look until there is something.

    Raises:
        Unavailable: not within ``limit_s`` seconds; ``missing`` says what.
    """
    deadline = time.monotonic() + limit_s
    pause_s = FIRST_LOOK_S
    while (found := look()) is None:
        if time.monotonic() + pause_s > deadline:
            message = f"{missing()} within {limit_s:g} s; look at that process"
            raise Unavailable(message, path=path, operation="agree on a checkpoint")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, SLOWEST_LOOK_S)
    return found
