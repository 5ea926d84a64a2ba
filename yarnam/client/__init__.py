"""The public Python API. Start with ``Client``; ``yarnam.Client`` is the same.

``AsyncClient`` is the same for asyncio. The command line calls nothing else. Each name is loaded
on its first use: a command needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yarnam.client.api import Client, Spec
    from yarnam.client.async_client import AsyncClient, AsyncJob
    from yarnam.client.functions.call_results import FunctionFailed, RemoteTraceback
    from yarnam.client.functions.function_executor import Executor, FunctionArray
    from yarnam.client.functions.function_job import FunctionJob
    from yarnam.client.functions.job_array import JobArray
    from yarnam.client.job import Job
    from yarnam.client.monitor.job_end import JobEnded, WaitTimeout, error_of
    from yarnam.client.monitor.logs.job_logs import LogPiece, LogSource
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

_MODULES = {
    "AsyncClient": "yarnam.client.async_client",
    "AsyncJob": "yarnam.client.async_client",
    "CheckedJob": "yarnam.client.submit.preflight",
    "Client": "yarnam.client.api",
    "Executor": "yarnam.client.functions.function_executor",
    "FunctionArray": "yarnam.client.functions.function_executor",
    "FunctionFailed": "yarnam.client.functions.call_results",
    "FunctionJob": "yarnam.client.functions.function_job",
    "Job": "yarnam.client.job",
    "JobArray": "yarnam.client.functions.job_array",
    "JobEnded": "yarnam.client.monitor.job_end",
    "LogPiece": "yarnam.client.monitor.logs.job_logs",
    "LogSource": "yarnam.client.monitor.logs.job_logs",
    "RemoteTraceback": "yarnam.client.functions.call_results",
    "Spec": "yarnam.client.api",
    "WaitTimeout": "yarnam.client.monitor.job_end",
    "error_of": "yarnam.client.monitor.job_end",
    "metrics_table": "yarnam.client.monitor.metrics_table",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
