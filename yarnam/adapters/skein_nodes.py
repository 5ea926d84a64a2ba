"""The cluster as Skein's driver reports it: what is left where the RM's REST API does not answer.

The driver speaks YARN's RPC with the container's own tokens. It is a JVM of some 200 MB that takes
two seconds, so it is started for one question and stopped again. It knows the nodes, but of a
queue under the Fair Scheduler nothing of use.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import grpc

from yarnam.adapters.skein_am import local_credentials, skein_channel
from yarnam.adapters.skein_proto import DriverStub, messages
from yarnam.errors import NoPermission, Unavailable
from yarnam.model.ids import NodeId, RackId
from yarnam.model.resources import Resources
from yarnam.model.snapshot import ClusterSnapshot, Node, NodeState, QueueView
from yarnam.ports import ClusterView

START_LIMIT_S = 20.0
"""For the JVM, on a loaded node."""
CALL_LIMIT_S = 8.0
"""For the question; YARN's own client would go on asking a dead RM for a quarter of an hour."""

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

    def __init__(self, jar: str = ".skein.jar", environ: Mapping[str, str] = os.environ) -> None:
        self._jar = str(Path(jar).resolve())
        self._environ = environ

    def snapshot(self, queue: str) -> ClusterSnapshot:
        """Nodes only; the queue has no limits. At most 28 s. Raises Unavailable."""
        certificate, key = local_credentials()
        with tempfile.TemporaryFile() as log, _callback() as callback:
            process = self._start(certificate, key, callback, log)
            try:
                port = _await_port(process, callback, log)
                reports = _ask(f"127.0.0.1:{port}", certificate, key)
            finally:
                process.kill()
                process.wait()
        nodes = tuple(sorted((node_of(report) for report in reports), key=lambda n: n.node_id))
        return ClusterSnapshot(taken_at_s=time.time(), nodes=nodes, queue=QueueView(queue))

    def _start(
        self, certificate: bytes, key: bytes, callback: socket.socket, log: Any
    ) -> subprocess.Popen[bytes]:
        java_home = self._environ.get("JAVA_HOME", "")
        java = f"{java_home}/bin/java" if java_home else "java"
        environ = {
            **self._environ,
            "SKEIN_CERTIFICATE": certificate.decode(),
            "SKEIN_KEY": key.decode(),
            "SKEIN_CALLBACK_PORT": str(callback.getsockname()[1]),
            "CLASSPATH": f"{self._jar}:{parents_class_path()}",
        }
        command = [java, *_JAVA_OPTIONS, "com.anaconda.skein.Driver", "--jar", self._jar]
        try:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environ
            )
        except OSError as error:
            raise Unavailable(f"cannot start Skein's driver: {error}") from error


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

    def snapshot(self, queue: str) -> ClusterSnapshot:
        """Raises Unavailable with the first view's reason when neither answers."""
        try:
            return self._first.snapshot(queue)
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
        node_id=NodeId(report.id.rpartition(":")[0]),
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


def _callback() -> socket.socket:
    """The driver connects to it and says its port in four bytes."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    return listener


def _await_port(process: subprocess.Popen[bytes], callback: socket.socket, log: Any) -> int:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            log.seek(0)
            lines = log.read()[-1000:].decode(errors="replace").splitlines()
            said = lines[-1] if lines else ""
            raise Unavailable(f"Skein's driver ended with code {process.returncode}: {said}")
        if select.select([callback], [], [], 0.2)[0]:
            connection = callback.accept()[0]
            with connection, connection.makefile("rb") as stream:
                data = stream.read(4)
            if len(data) == 4:
                return int(struct.unpack("!i", data)[0])
    raise Unavailable(f"Skein's driver did not start within {START_LIMIT_S:.0f} s")


def _ask(address: str, certificate: bytes, key: bytes) -> list[Any]:
    with skein_channel(address, certificate, key) as channel:
        try:
            reply = DriverStub(channel).getNodes(messages.NodesRequest(), timeout=CALL_LIMIT_S)
        except grpc.RpcError as error:
            raise Unavailable(f"Skein's driver: {error.code().name}") from error
    return list(reply.reports)
