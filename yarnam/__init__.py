"""yarnam: all-or-none distributed deep-learning jobs on the GPUs of a Hadoop YARN cluster.

``yarnam.Client`` is the public Python API; ``yarnam.train`` is the optional SDK for training code.
Both load on first use: this module must stay importable in any Python, with nothing installed,
because the training SDK below it runs in the user's own environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yarnam._version import __version__

if TYPE_CHECKING:
    from yarnam.client import AsyncClient, AsyncJob, Client, Job, JobEnded, WaitTimeout

__all__ = ["AsyncClient", "AsyncJob", "Client", "Job", "JobEnded", "WaitTimeout", "__version__"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from yarnam import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
