"""The client's line to a job: the AM's JobControl and the agents' AgentLogs, over gRPC.

Mutual TLS with the job's own certificate. Every call has a limit; what does not answer in time is
Unavailable, and the caller falls back on HDFS and the ResourceManager.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import grpc

from yarnam._light_imports import on_first_use
from yarnam.core.model.events import Event
from yarnam.core.model.job_status import JobStatus
from yarnam.errors import NoPermission, Unavailable, WireMismatch, YarnamError
from yarnam.ports.job_access import StatusVersion
from yarnam.wire.codec import decode, decode_event
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.pb import yarnam_pb2_grpc as rpc
from yarnam.wire.tls import CHANNEL_OPTIONS, channel_credentials, rpc_failure

if TYPE_CHECKING:
    from yarnam.core.model.session_parts import SessionRequest
    from yarnam.ports.task_sessions import TaskSession

with on_first_use():
    from yarnam.adapters.grpc import session_client

CALL_LIMIT_S = 4.0
"""A living AM answers in milliseconds; one on a dead node never does."""

OPENING_AT_ONCE = 32
"""A thousand agents' TLS handshakes at the same moment outlast gRPC's limit for each of them."""

CANCEL_LIMIT_S = 10.0
"""The AM journals the request to HDFS before it answers."""


class GrpcJobClient:
    """Talks to the AM at ``address`` (host:port). Thread-safe."""

    def __init__(self, address: str, credentials_pem: bytes) -> None:
        self._address = address
        self._credentials = channel_credentials(credentials_pem)
        self._lock = threading.Lock()
        self._channels: dict[str, grpc.Channel] = {}
        self._tails: set[Any] = set()
        self._opening = threading.Semaphore(OPENING_AT_ONCE)
        self._closed = False

    def status(self, *, seen: int = 0, hold_s: float = 0.0) -> StatusVersion:
        stub = self._control()
        request = pb.StatusRequest(seen=seen, hold_ms=int(hold_s * 1000))
        method = stub.AwaitStatus if hold_s > 0 else stub.GetStatus
        reply = self._call(method, request, CALL_LIMIT_S + hold_s)
        if not reply.version:
            raise Unavailable(f"the AM at {self._address} has no status yet")
        return StatusVersion(reply.version, decode(reply.status_json, JobStatus))

    def cancel(self, *, by: str, reason: str) -> None:
        self._call(self._control().Cancel, pb.CancelRequest(by=by, reason=reason), CANCEL_LIMIT_S)

    def scale(self, *, by: str, tasks: int | None) -> None:
        request = pb.ScaleRequest(by=by, tasks=tasks or 0)
        self._call(self._control().Scale, request, CANCEL_LIMIT_S)

    def suspend(self, *, by: str, limit_s: float, reason: str) -> None:
        request = pb.SuspendRequest(by=by, limit_s=limit_s, reason=reason)
        self._call(self._control().Suspend, request, CANCEL_LIMIT_S)

    def resume(self, *, by: str) -> None:
        self._call(self._control().Resume, pb.ResumeRequest(by=by), CANCEL_LIMIT_S)

    def interrupt(self, *, by: str) -> None:
        self._call(self._control().Interrupt, pb.InterruptRequest(by=by), CANCEL_LIMIT_S)

    def replace_tokens(self, tokens: Sequence[str]) -> None:
        self._call(self._control().ReplaceTokens, pb.Tokens(tokens=tokens), CANCEL_LIMIT_S)

    def events(self, first: int = 0) -> Sequence[Event]:
        request = pb.EventsRequest(**{"from": first})
        reply = self._call(self._control().GetEvents, request, CALL_LIMIT_S)
        return [decode_event(line) for line in reply.events_json]

    def tail(
        self,
        log_address: str,
        local_rank: int,
        *,
        last_lines: int | None = None,
        follow: bool = False,
        agent_log: bool = False,
    ) -> Iterator[bytes]:
        request = pb.TailRequest(
            local_rank=local_rank, agent_log=agent_log, last_lines=last_lines or 0, follow=follow
        )
        with self._opening:
            stub = rpc.AgentLogsStub(self._channel(log_address))  # type: ignore[no-untyped-call]
            call = stub.Tail(request, timeout=None if follow else 60.0)
            with self._lock:
                if self._closed:
                    call.cancel()
                self._tails.add(call)
            call.initial_metadata()  # the agent has answered, or the call has ended
        try:
            for chunk in call:
                yield chunk.data
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.CANCELLED:
                raise _as_yarnam(error, log_address) from error
        finally:
            call.cancel()
            with self._lock:
                self._tails.discard(call)

    def open_session(self, request: SessionRequest) -> TaskSession:
        try:
            stub = rpc.TaskSessionsStub(self._channel(self._address))  # type: ignore[no-untyped-call]
            return session_client.GrpcTaskSession(stub.Open, request, self._address)
        except ValueError as error:
            raise Unavailable(f"the connection to {self._address} was closed") from error

    def close(self) -> None:
        with self._lock:
            self._closed = True
            tails, self._tails = self._tails, set()
            channels, self._channels = self._channels, {}
        for call in tails:
            call.cancel()
        for channel in channels.values():
            channel.close()

    def _control(self) -> Any:
        return rpc.JobControlStub(self._channel(self._address))  # type: ignore[no-untyped-call]

    def _channel(self, address: str) -> grpc.Channel:
        with self._lock:
            channel = self._channels.get(address)
            if channel is None:
                channel = grpc.secure_channel(address, self._credentials, options=CHANNEL_OPTIONS)
                self._channels[address] = channel
            return channel

    def _call(self, method: Any, request: Any, limit_s: float) -> Any:
        try:
            return method(request, timeout=limit_s)
        except grpc.RpcError as error:
            raise _as_yarnam(error, self._address) from error
        except ValueError as error:
            # gRPC's word for a channel that another thread has closed.
            raise Unavailable(f"the connection to {self._address} was closed") from error


def _as_yarnam(error: grpc.RpcError, address: str) -> YarnamError:
    code, failure = error.code(), rpc_failure(error)
    if code is grpc.StatusCode.FAILED_PRECONDITION:
        return WireMismatch(f"{address}: {failure}", hint="Use the yarnam that submitted the job.")
    if code in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}:
        return NoPermission(
            f"{address} refused the call: it accepts only the job's own certificate"
        )
    return Unavailable(f"no answer from {address}: {failure}")
