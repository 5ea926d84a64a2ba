"""Which files of an input an epoch leaves out: decided once for each epoch, the same on all ranks.

While a job runs, files may be found to be corrupt, by this job or by another one. What was found
takes effect at the boundary of an epoch: the ApplicationMaster fixes an epoch's list when the first
rank asks for it, writes it down, and tells every later one the same, in this attempt and in all
that follow.
"""

from __future__ import annotations

import os
import re

from yarnam.train import _desk

ANSWER_LIMIT_S = 120.0
"""For the list of an epoch: HDFS may be in the middle of a restart, and the ApplicationMaster too.
Longer than an agent stays without its ApplicationMaster (``am.orphan_timeout``)."""


class LeftOutUnknown(RuntimeError):
    """Nobody could say what an epoch leaves out. Reading on would let the ranks read different
    files."""


def left_out(name: str, epoch: int) -> frozenset[str]:
    """Files that this epoch leaves out of a data input, as paths relative to its URI.

    Call it at the beginning of each epoch, on any ranks: all get the same answer, at once or after
    the limit. Outside a job nothing is left out.

    Args:
        name: of the input in the spec.
        epoch: from 0.

    Raises:
        LeftOutUnknown: no answer within two minutes, or the job is about to end because of its
            inputs.
    """
    if epoch < 0:
        raise ValueError(f"epochs count from 0, not from {epoch}")
    if not _desk.is_there():
        return decided_at_submit(name)
    try:
        answer = _desk.ask(
            {"ask": "left-out", "input": name, "epoch": epoch}, limit_s=ANSWER_LIMIT_S
        )
    except _desk.NoAnswer as error:
        raise LeftOutUnknown(
            f"which files of input {name!r} epoch {epoch} leaves out is not known: {error}"
        ) from error
    return frozenset(str(path) for path in answer["left_out"])


def decided_at_submit(name: str) -> frozenset[str]:
    """The same, as it was decided when the job was submitted."""
    names = os.environ.get("YARNAM_SKIPPED_" + re.sub(r"[^A-Z0-9]", "_", name.upper()), "")
    return frozenset(names.split("\n")) if names else frozenset()
