"""How a directory of checkpoints is laid out. Pure.

::

    <directory>/
        step-0000000240-e000003-0mnopq1x29f2c/  one save: its step, its writer's epoch, a tag
            shard-00000-of-00004            what rank 0 of 4 wrote
            manifest.json                   renamed here last: now the checkpoint exists
        corrupt-step-…                      set aside by a restore; for a human to look at
        .fence/0000000003/<owner>.<number>  who claimed epoch 3
        .commits/0000000003/                manifests of epoch 3 on their way to their place
        .agree/0000000003/                  which checkpoint the ranks of epoch 3 agreed on
        .pins/<checkpoint>/<until>-<who>    somebody reads it until then
        .trash/                             half deleted
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hdfs_utils import uri as uris

MANIFEST = "manifest.json"
FENCE = ".fence"
COMMITS = ".commits"
AGREE = ".agree"
PINS = ".pins"
TRASH = ".trash"
SET_ASIDE = "corrupt-"

MAX_STEP = 10**10 - 1

_NAME = re.compile(r"step-([0-9]{10})-e([0-9]{6,10})-([0-9a-z]{8,16})")


@dataclass(frozen=True, slots=True)
class CheckpointName:
    """The name of a checkpoint's directory, taken apart."""

    step: int
    epoch: int
    tag: str

    def __str__(self) -> str:
        return f"step-{self.step:010d}-e{self.epoch:06d}-{self.tag}"

    @property
    def order(self) -> tuple[int, int, str]:
        """Which is newer. The epoch counts more than the step: who went back to an older
        checkpoint and trained on from there wants its own steps, not the lost ones."""
        return (self.epoch, self.step, self.tag)


def parse(path: str) -> CheckpointName | None:
    """From the last part of a path; None where it is not the name of a checkpoint."""
    match = _NAME.fullmatch(uris.name(path))
    return CheckpointName(int(match[1]), int(match[2]), match[3]) if match else None


def parse_set_aside(path: str) -> CheckpointName | None:
    """The checkpoint that was set aside under this name; None where it is none."""
    name = uris.name(path)
    if not name.startswith(SET_ASIDE):
        return None
    return parse("/" + name[len(SET_ASIDE) :].partition(".")[0])


def group_tag(number: int) -> str:
    """The tag of the n-th save of one step by a group of ranks, the same on all of them."""
    return f"g{number:07d}"


def single_tag(saved_ms: int, unique: int) -> str:
    """The tag of a save by one process: later ones of one step come after earlier ones.

    Args:
        saved_ms: when, in milliseconds since 1970.
        unique: drawn anew for each, below 2**16: two processes may save in one millisecond.
    """
    digits = ""
    while saved_ms:
        saved_ms, digit = divmod(saved_ms, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    # Nine digits to base 36 last until the year 5188.
    return f"{digits:0>9}{unique:04x}"


def shard(rank: int, world_size: int) -> str:
    """The file of one rank's values, without suffix."""
    return f"shard-{rank:05d}-of-{world_size:05d}"


def epoch(number: int) -> str:
    """An epoch as a name: names sort as the numbers do."""
    return f"{number:010d}"
