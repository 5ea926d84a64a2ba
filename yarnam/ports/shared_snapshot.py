"""A snapshot of the cluster that waiting jobs share, so that not each of them asks the
ResourceManager for all nodes.

No safety rests on it: no job asks for containers by another job's snapshot, since any client may
have written it.
"""

from __future__ import annotations

from typing import Protocol

from yarnam.core.model.snapshot import ClusterSnapshot, ClusterSummary


class SharedSnapshots(Protocol):
    """Where the newest summary is kept. Both calls take at most 10 s and raise Unavailable while
    that place does not answer."""

    def newest(self, max_age_s: float) -> ClusterSummary | None:
        """``None`` if there is none, it is older (by the store's own time of writing), it cannot be
        read, or it is this job's own."""

    def publish(self, snapshot: ClusterSnapshot) -> None:
        """Replaces the newest one. One that is too large to be shared is not published."""
