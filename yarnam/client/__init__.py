"""The public Python API. Start with ``Client``; ``yarnam.Client`` is the same.

The command line calls nothing else.
"""

from __future__ import annotations

from yarnam.client.api import Client, Spec
from yarnam.client.job import Job, error_of
from yarnam.client.monitor.job_logs import LogPiece, LogSource
from yarnam.client.submit.preflight import CheckedJob

__all__ = ["CheckedJob", "Client", "Job", "LogPiece", "LogSource", "Spec", "error_of"]
