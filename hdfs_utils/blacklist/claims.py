"""Claims as those make them who have looked at a file."""

from __future__ import annotations

import time

from hdfs_utils.blacklist.entries import PROVED_FOR_S, SUSPECTED_FOR_S, Claim, State


def new_claim(
    state: State, by: str, reason: str, evidence: str, *, job: str = "", now_s: float | None = None
) -> Claim:
    """A claim of now, with the expiry that its state has."""
    at_s = time.time() if now_s is None else now_s
    lasts = {State.SUSPECTED: SUSPECTED_FOR_S, State.PROVED: PROVED_FOR_S}
    expires_s = at_s + lasts[state] if state in lasts else 0.0
    return Claim(state, by, job, reason, evidence, at_s, at_s, expires_s)
