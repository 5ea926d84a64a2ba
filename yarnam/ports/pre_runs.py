"""The lasting result of a job's pre-run."""

from __future__ import annotations

from typing import Protocol

from yarnam.core.model.job_status import PreRunStatus


class PreRunStore(Protocol):
    """The store of one job's pre-run."""

    def settle(self, status: PreRunStatus, at_s: float) -> None:
        """Delete the pre-run's checkpoints; if it has passed, record that for later submits of the
        same program. May be called again. Raises YarnamError if HDFS does not answer."""
