"""What stays of a job's pre-run when it is over."""

from __future__ import annotations

from typing import Protocol

from yarnam.core.model.job_status import PreRunStatus


class PreRunStore(Protocol):
    """Of one job."""

    def settle(self, status: PreRunStatus, at_s: float) -> None:
        """Throw the pre-run's checkpoints away; where it has passed, note that for later submits of
        the same program. May be called again. Raises YarnamError: HDFS does not answer."""
