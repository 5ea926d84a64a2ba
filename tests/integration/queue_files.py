"""Gives the test cluster's ResourceManager another allocation file for a while."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from yarnam.adapters.yarn.queue_tree import queue_tree_of

if TYPE_CHECKING:
    from yarnam.adapters.yarn.rest import ResourceManager
    from yarnam.cluster import EmbeddedCluster
    from yarnam.core.queues.queue_state import QueueState


@contextmanager
def more_queues(
    cluster: EmbeddedCluster, environ: Mapping[str, str], queues: str
) -> Iterator[None]:
    """The cluster's own queues and these (XML below root), at once; afterwards its own again."""

    def with_queues(own: str) -> str:
        end = own.index("</queue>\n  <queuePlacementPolicy>")
        return own[:end] + queues + own[end:]

    with _changed(cluster, environ, with_queues):
        yield


@contextmanager
def placement_rules(
    cluster: EmbeddedCluster, environ: Mapping[str, str], rules: str
) -> Iterator[None]:
    """These placement rules instead of the cluster's own; afterwards its own again."""

    def with_rules(own: str) -> str:
        before, opening, rest = own.partition("<queuePlacementPolicy>")
        assert opening
        return before + opening + rules + rest[rest.index("</queuePlacementPolicy>") :]

    with _changed(cluster, environ, with_rules):
        yield


@contextmanager
def _changed(
    cluster: EmbeddedCluster, environ: Mapping[str, str], change: Callable[[str], str]
) -> Iterator[None]:
    path = cluster.plan.paths.queues("fair")
    own = path.read_text()
    try:
        path.write_text(change(own))
        refresh(environ)
        yield
    finally:
        path.write_text(own)
        refresh(environ)


def left_after(differences: Callable[[], list[Any]], limit_s: float) -> list[Any]:
    """The first few of what still differs after so long; empty as soon as nothing does."""
    deadline = time.monotonic() + limit_s
    while (found := differences()) and time.monotonic() < deadline:
        time.sleep(0.3)
    return found[:5]


def live(rm: ResourceManager) -> QueueState:
    """The queues as the ResourceManager has them now."""
    found = queue_tree_of(rm._call("GET", "/ws/v1/cluster/scheduler", {}))
    assert found is not None
    return found


def refresh(environ: Mapping[str, str]) -> None:
    """The ResourceManager reads the file now."""
    done = subprocess.run(
        ["yarn", "rmadmin", "-refreshQueues"],
        env=dict(environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
