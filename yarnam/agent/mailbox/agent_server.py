"""The agent's server: its logs, the links of its node's checks, and sessions in its task."""

from __future__ import annotations

import grpc

from yarnam.agent.mailbox.link_service import LinkService
from yarnam.agent.mailbox.log_service import LogService
from yarnam.agent.mailbox.session_service import SessionService
from yarnam.errors import Unavailable
from yarnam.wire.pb import yarnam_pb2_grpc
from yarnam.wire.tls import SERVER_OPTIONS, server_credentials


async def open_server(
    address: str, pem: bytes, logs: LogService, links: LinkService, sessions: SessionService
) -> tuple[grpc.aio.Server, str]:
    """The server, and where it listens (host:port). Raises Unavailable."""
    server = grpc.aio.server(options=SERVER_OPTIONS)
    yarnam_pb2_grpc.add_AgentLogsServicer_to_server(  # type: ignore[no-untyped-call]
        logs, server
    )
    yarnam_pb2_grpc.add_NodeCheckServicer_to_server(  # type: ignore[no-untyped-call]
        links, server
    )
    yarnam_pb2_grpc.add_TaskSessionsServicer_to_server(  # type: ignore[no-untyped-call]
        sessions, server
    )
    host = f"[{address}]" if ":" in address else address
    try:
        port = server.add_secure_port(f"{host}:0", server_credentials(pem))
    except RuntimeError as error:
        raise Unavailable(f"cannot listen on {address}: {error}") from error
    await server.start()
    return server, f"{host}:{port}"
