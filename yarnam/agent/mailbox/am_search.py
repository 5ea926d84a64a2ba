"""Finds the job's next ApplicationMaster while the present one does not answer.

An attempt of the AM writes its address into the job's directory on HDFS, where
``yarnam.agent.data.am_lookup`` reads it.
"""

from __future__ import annotations

from typing import NamedTuple

FIRST_SEARCH_S = 1.0
"""Silence of the AM before the first look. A restart of the ResourceManager does not silence it."""


class AmSighting(NamedTuple):
    """The AM attempt that the job's directory names. ``address`` is host:port."""

    am_attempt: int
    address: str
    is_last: bool = False
    """No other one follows."""


class Absence(NamedTuple):
    """An AM that does not answer. Times by one clock that only grows."""

    heard_at_s: float
    """When it answered last."""
    confirmed_at_s: float = 0.0
    """When the job's directory showed last that no later attempt has taken over, and that one may
    follow."""

    def ends_at_s(self, orphan_timeout_s: float, absence_s: float) -> float:
        """When the agent gives up. Nobody has taken its task's place while the job's directory
        names no later AM, so it waits ``absence_s`` then. Without that proof, since it cannot read
        the directory, or cannot reach the AM that it names, ``orphan_timeout_s`` counts."""
        proven_at_s = max(self.heard_at_s, self.confirmed_at_s)
        patient_s = max(absence_s, orphan_timeout_s)
        return min(proven_at_s + orphan_timeout_s, self.heard_at_s + patient_s)


def search_pause_s(silent_s: float) -> float:
    """The time between two looks after this silence. YARN starts the next attempt within seconds,
    or, when the node was lost, after minutes; a look costs 0.3 s of CPU."""
    if silent_s < 20.0:
        return 2.0
    return 5.0 if silent_s < 300.0 else 10.0
