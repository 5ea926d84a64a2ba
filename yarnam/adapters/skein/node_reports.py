"""The cluster as Skein's driver reports it: what is left where the RM's REST API does not answer.

The driver speaks YARN's RPC with the container's own tokens. It is a JVM of some 200 MB that takes
two seconds, so it is started for one question and stopped again. It knows the nodes, but of a
queue under the Fair Scheduler nothing of use.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from yarnam.adapters.skein.am_client import local_credentials, skein_channel
from yarnam.adapters.skein.driver_process import DriverProcess
from yarnam.adapters.skein.proto import DriverStub, messages
from yarnam.core.model.ids import RackId, node_of_address
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot, Node, NodeState, QueueView
from yarnam.errors import NoPermission, Unavailable
from yarnam.ports import ClusterView
from yarnam.wire.tls import rpc_failure

START_LIMIT_S = 20.0
"""For the JVM, on a loaded node."""
CALL_LIMIT_S = 8.0
"""For the question; YARN's own client would continue asking a dead RM for a quarter of an hour."""

PAUSE_S = 60.0
"""Least time between two starts of the JVM: with the whole RM away there is nothing to be had."""

_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m")
_STATES = {
    "RUNNING": NodeState.RUNNING,
    "UNHEALTHY": NodeState.UNHEALTHY,
    "DECOMMISSIONING": NodeState.DECOMMISSIONING,
}


class SkeinNodeView:
    """A ``ports.ClusterView`` for the AM's container."""

    def __init__(self) -> None:
        self._jar = str(Path(".skein.jar").resolve())

    def snapshot(self, queue: str, *, max_age_s: float | None = None) -> ClusterSnapshot:
        """Nodes only; the queue has no limits. At most 28 s. Raises Unavailable."""
        certificate, key = local_credentials()
        java_home = os.environ.get("JAVA_HOME", "")
        java = f"{java_home}/bin/java" if java_home else "java"
        process = DriverProcess(
            [java, *_JAVA_OPTIONS], self._jar, os.environ, parents_class_path(), certificate, key
        )
        try:
            port = process.await_port(START_LIMIT_S)
            reports = _ask(f"127.0.0.1:{port}", certificate, key)
        finally:
            process.stop()
        nodes = tuple(sorted((node_of(report) for report in reports), key=lambda n: n.node_id))
        return ClusterSnapshot(taken_at_s=time.time(), nodes=nodes, queue=QueueView(queue))


class FallbackView:
    """A ``ports.ClusterView``: the first one, and a second one while the first does not answer."""

    def __init__(
        self,
        first: ClusterView,
        second: ClusterView,
        *,
        pause_s: float = PAUSE_S,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._first = first
        self._second = second
        self._pause_s = pause_s
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._tried_at = -pause_s

    def snapshot(self, queue: str, *, max_age_s: float | None = None) -> ClusterSnapshot:
        """Raises Unavailable with the first view's reason when neither answers."""
        try:
            return self._first.snapshot(queue, max_age_s=max_age_s)
        except (Unavailable, NoPermission) as error:
            reason = error
        with self._lock:
            now = self._monotonic_s()
            may_try = now - self._tried_at >= self._pause_s
            if may_try:
                self._tried_at = now
        if may_try:
            try:
                return self._second.snapshot(queue)
            except Unavailable as error:
                raise Unavailable(
                    f"{reason.message}; nor does Skein's report: {error.message}", hint=reason.hint
                ) from reason
        raise Unavailable(reason.message, hint=reason.hint) from reason


def node_of(report: Any) -> Node:
    """From Skein's NodeReport."""
    return Node(
        node_id=node_of_address(report.id),
        rack=RackId(report.rack_name),
        state=_STATES.get(messages.NodeState.Type.Name(report.state), NodeState.LOST),
        total=_resources(report.total_resources),
        used=_resources(report.used_resources),
        http_address=report.http_address,
        labels=tuple(report.labels),
    )


def parents_class_path() -> str:
    """That of the Java AM which started us: the one set of Hadoop jars known to be there."""
    try:
        rows = Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0")
    except OSError as error:
        raise Unavailable(f"cannot read the class path of Skein's AM: {error}") from error
    for row in rows:
        name, _, value = row.partition(b"=")
        if name == b"CLASSPATH":
            return value.decode()
    raise Unavailable("Skein's AM has no CLASSPATH in its environment")


def _resources(amount: Any) -> Resources:
    return Resources(memory_mib=amount.memory, vcores=amount.vcores, gpus=amount.gpus)


def _ask(address: str, certificate: bytes, key: bytes) -> list[Any]:
    with skein_channel(address, certificate, key) as channel:
        try:
            reply = DriverStub(channel).getNodes(messages.NodesRequest(), timeout=CALL_LIMIT_S)
        except grpc.RpcError as error:
            raise Unavailable(f"Skein's driver: {rpc_failure(error)}") from error
    return list(reply.reports)
