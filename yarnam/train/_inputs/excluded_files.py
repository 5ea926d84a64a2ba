"""Which files of an input an epoch excludes: decided once for each epoch, the same on all ranks.

While a job runs, files may be found to be corrupt, by this job or by another one. A finding takes
effect at the next epoch: the ApplicationMaster fixes an epoch's list when the first rank asks for
it, writes it down, and gives every later rank the same list, in this attempt and in all that
follow.
"""

from __future__ import annotations

import os
import re

from yarnam.train._job import agent_client
from yarnam.train._job.job_context import input as input_uri

REPLY_LIMIT_S = 120.0
"""For the list of an epoch: HDFS may be in the middle of a restart, and the ApplicationMaster too.
Longer than an agent stays without its ApplicationMaster (``am.orphan_timeout``)."""


class ExcludedFilesUnknown(RuntimeError):
    """The list of an epoch could not be fetched. Without it, ranks could read different files."""


def excluded_files(name: str, epoch: int, *, limit_s: float = REPLY_LIMIT_S) -> frozenset[str]:
    """Files of a data input that this epoch excludes, as paths relative to the input's URI.

    Call it at the beginning of each epoch, on any ranks: all get the same list. Outside a job no
    file is excluded.

    Args:
        name: of the input in the spec.
        epoch: from 0.
        limit_s: how long to wait for the list, in seconds.

    Raises:
        ExcludedFilesUnknown: no reply within ``limit_s``, or the job is about to end because of its
            inputs.
        ValueError: a negative epoch.
    """
    if epoch < 0:
        raise ValueError(f"epochs count from 0, not from {epoch}")
    if not agent_client.has_agent():
        return excluded_when_launched(name)
    request = {"request": "excluded-files", "input": name, "epoch": epoch}
    try:
        reply = agent_client.call_agent(request, limit_s)
    except agent_client.AgentUnavailable as error:
        raise ExcludedFilesUnknown(
            f"the files that epoch {epoch} of input {name!r} excludes are not known: {error}"
        ) from error
    return frozenset(str(path) for path in reply["excluded"])


def excluded_uris(name: str) -> list[str]:
    """URIs of the files of a data input that the job excludes, as known when this process was
    started: decided at submit, or proved corrupt before the gang was started again."""
    names = excluded_when_launched(name)
    root = input_uri(name).rstrip("/") if names else ""
    return [f"{root}/{relative}" for relative in sorted(names)]


def excluded_when_launched(name: str) -> frozenset[str]:
    """The same, relative to the input's URI."""
    names = os.environ.get("YARNAM_SKIPPED_" + re.sub(r"[^A-Z0-9]", "_", name.upper()), "")
    return frozenset(names.split("\n")) if names else frozenset()
