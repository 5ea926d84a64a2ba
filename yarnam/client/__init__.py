"""The public Python API. Start with ``Client``; ``yarnam.Client`` is the same.

``AsyncClient`` is the same for asyncio. The command line calls nothing else.
"""

from __future__ import annotations

from yarnam.client.api import Client, Spec
from yarnam.client.async_client import AsyncClient, AsyncJob
from yarnam.client.functions.call_results import FunctionFailed, RemoteTraceback
from yarnam.client.functions.function_executor import Executor, FunctionArray
from yarnam.client.functions.function_job import FunctionJob
from yarnam.client.functions.job_array import JobArray
from yarnam.client.job import Job
from yarnam.client.monitor.job_end import JobEnded, WaitTimeout, error_of
from yarnam.client.monitor.job_logs import LogPiece, LogSource
from yarnam.client.monitor.metrics_table import metrics_table
from yarnam.client.submit.preflight import CheckedJob

__all__ = [
    "AsyncClient",
    "AsyncJob",
    "CheckedJob",
    "Client",
    "Executor",
    "FunctionArray",
    "FunctionFailed",
    "FunctionJob",
    "Job",
    "JobArray",
    "JobEnded",
    "LogPiece",
    "LogSource",
    "RemoteTraceback",
    "Spec",
    "WaitTimeout",
    "error_of",
    "metrics_table",
]
