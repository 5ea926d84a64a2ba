"""Calls to Skein's ApplicationMaster, each with a deadline (Skein's own client has none)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc

from yarnam.adapters.skein.proto import AppMasterStub, messages
from yarnam.errors import InternalError, Unavailable, YarnamError
from yarnam.wire.tls import rpc_failure

CALL_TIMEOUT_S = 4.0
"""Skein's AM runs on the same node and answers in milliseconds; a JVM under pressure takes a
collection's time. Two tries stay within the ports' 10 s."""

SHUTDOWN_TIMEOUT_S = 20.0

WAITING, REQUESTED, RUNNING = "WAITING", "REQUESTED", "RUNNING"
SUCCEEDED, FAILED, KILLED = "SUCCEEDED", "FAILED", "KILLED"
ACTIVE = (WAITING, REQUESTED, RUNNING)
ENDED = (SUCCEEDED, FAILED, KILLED)


@dataclass(frozen=True, slots=True, order=True)
class ContainerKey:
    """Skein's own name of a container: instance ``number`` of a service."""

    service: str
    instance: int


@dataclass(frozen=True, slots=True)
class ContainerRow:
    """A container as Skein tells it. ``RUNNING`` means granted, not that anything runs."""

    key: ContainerKey
    state: str
    container: str = ""
    http_address: str = ""
    exit_message: str = ""


class SkeinAm(Protocol):
    """The calls of Skein's AM that the broker makes. All raise Unavailable or InternalError."""

    def add(
        self, wanted: Sequence[tuple[str, Mapping[str, str]]]
    ) -> Sequence[ContainerKey | YarnamError]:
        """Ask for one container per (service, env); in the same order, an error in place of each
        one that was refused."""

    def containers(
        self, states: Iterable[str], services: Iterable[str] = ()
    ) -> Sequence[ContainerRow]: ...

    def kill(self, key: ContainerKey) -> None:
        """Harmless for one that has ended."""

    def write_key(self, key: str, value: bytes) -> None:
        """Put it into the application's key-value store, where containers read it."""

    def set_progress(self, fraction: float) -> None: ...

    def shutdown(self, final_status: str, diagnostics: str) -> None:
        """``final_status``: SUCCEEDED, FAILED or KILLED."""


def local_credentials() -> tuple[bytes, bytes]:
    """Certificate and key that Skein leaves in the working directory. Raises InternalError."""
    try:
        return Path(".skein.crt").read_bytes(), Path(".skein.pem").read_bytes()
    except OSError as error:
        raise InternalError(f"not in a container of Skein's: {error}") from error


def skein_channel(address: str, certificate: bytes, key: bytes) -> grpc.Channel:
    """A channel to Skein's AM or driver, which share one way of speaking."""
    credentials = grpc.ssl_channel_credentials(certificate, key, certificate)
    options = [
        ("grpc.ssl_target_name_override", "skein-internal"),
        ("grpc.default_authority", "skein-internal"),
        ("grpc.enable_http_proxy", 0),
        # Completed containers stay in Skein's lists, so answers grow with the job's history.
        ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ]
    return grpc.secure_channel(address, credentials, options)


class GrpcSkeinAm:
    """Skein's AM over its own gRPC and certificate."""

    def __init__(self, address: str, certificate: bytes, key: bytes) -> None:
        self._channel = skein_channel(address, certificate, key)
        self._stub = AppMasterStub(self._channel)

    @classmethod
    def of_this_container(cls) -> GrpcSkeinAm:
        """From what Skein leaves for the AM's script. Raises InternalError outside of one."""
        address = os.environ.get("SKEIN_APPMASTER_ADDRESS", "")
        certificate, key = local_credentials()
        if not address:
            raise InternalError("SKEIN_APPMASTER_ADDRESS is not set: not in Skein's AM container")
        return cls(address, certificate, key)

    def add(
        self, wanted: Sequence[tuple[str, Mapping[str, str]]]
    ) -> Sequence[ContainerKey | YarnamError]:
        calls = [
            self._stub.addContainer.future(
                messages.AddContainerRequest(service_name=service, env=dict(env)),
                timeout=CALL_TIMEOUT_S,
            )
            for service, env in wanted
        ]
        return [_added(call) for call in calls]

    def containers(
        self, states: Iterable[str], services: Iterable[str] = ()
    ) -> Sequence[ContainerRow]:
        request = messages.ContainersRequest(services=list(services), states=list(states))
        reply = self._call("getContainers", request)
        return [_row(container) for container in reply.containers]

    def kill(self, key: ContainerKey) -> None:
        request = messages.ContainerInstance(service_name=key.service, instance=key.instance)
        self._call("killContainer", request)

    def write_key(self, key: str, value: bytes) -> None:
        self._call("PutKey", messages.PutKeyRequest(key=key, value=value))

    def read_key(self, key: str) -> bytes | None:
        """The value of this key, or ``None`` before it is set."""
        # Ranges exclude their end: the key followed by the least character holds the key alone.
        reply = self._call("GetRange", messages.GetRangeRequest(start=key, end=f"{key}\0"))
        return next((bytes(pair.value) for pair in reply.result), None)

    def set_progress(self, fraction: float) -> None:
        self._call("SetProgress", messages.SetProgressRequest(progress=fraction))

    def add_page(self, route: str, target: str, link_name: str) -> None:
        """Link ``target`` from Skein's own pages, which show it as ``pages/<route>/``."""
        self._call("AddProxy", messages.Proxy(route=route, target=target, link_name=link_name))

    def shutdown(self, final_status: str, diagnostics: str) -> None:
        request = messages.ShutdownRequest(final_status=final_status, diagnostics=diagnostics)
        self._call("shutdown", request, SHUTDOWN_TIMEOUT_S)

    def close(self) -> None:
        self._channel.close()

    def _call(self, method: str, request: Any, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        try:
            return getattr(self._stub, method)(request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise _error(error, method) from error


def _added(call: Any) -> ContainerKey | YarnamError:
    try:
        return _row(call.result()).key
    except grpc.RpcError as error:
        return _error(error, "addContainer")


def _row(container: Any) -> ContainerRow:
    return ContainerRow(
        key=ContainerKey(container.service_name, container.instance),
        state=messages.Container.State.Name(container.state),
        container=container.yarn_container_id,
        http_address=container.yarn_node_http_address,
        exit_message=container.exit_message,
    )


def _error(error: Any, method: str) -> YarnamError:
    code = error.code()
    text = f"Skein's ApplicationMaster, {method}: "
    if code in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}:
        return Unavailable(
            text + rpc_failure(error),
            hint="Its log is application.master.log in the AM's container.",
        )
    return InternalError(text + (error.details() or rpc_failure(error)))
