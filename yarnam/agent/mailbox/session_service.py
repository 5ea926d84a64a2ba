"""The agent's service for sessions. Nothing of them is loaded before the first one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from yarnam._light_imports import on_first_use
from yarnam.agent.keeper.keeper_client import KeeperClient
from yarnam.agent.sessions.session_task import SessionTask
from yarnam.wire.pb import yarnam_pb2_grpc

if TYPE_CHECKING:
    from yarnam.agent.mailbox.open_sessions import OpenSessions

with on_first_use():
    from yarnam.agent.mailbox import open_sessions


class SessionService(yarnam_pb2_grpc.TaskSessionsServicer):
    """``task``: as it is now."""

    def __init__(self, keeper: KeeperClient, task: Callable[[], SessionTask]) -> None:
        self._keeper = keeper
        self._task = task
        self._sessions: OpenSessions | None = None

    async def Open(self, requests: Any, context: Any) -> None:  # noqa: N802 - gRPC's name
        if self._sessions is None:
            self._sessions = open_sessions.OpenSessions(self._keeper, self._task)
        await self._sessions.serve(context)

    async def close(self, reason: str) -> None:
        """End all sessions with this reason."""
        if self._sessions is not None:
            await self._sessions.close(reason)
