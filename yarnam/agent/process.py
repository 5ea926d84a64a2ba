"""The agent as a process: reads its files, sets up its own log, runs its life."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from yarnam.agent.keeper_link import KeeperLink
from yarnam.agent.life import Agent, AgentExit
from yarnam.agent.settings import Settings, read_settings
from yarnam.agent.task_job import TaskJob, read_task_job
from yarnam.errors import BadConfig, WireMismatch, YarnamError
from yarnam.wire.protocol import LOCAL_CREDENTIALS_FILE, LOCAL_JOB_FILE, LOCAL_SECRETS_FILE

AGENT_LOG = "agent.log"

_LOG = logging.getLogger("yarnam.agent")


def run_agent(
    env: Mapping[str, str], directory: Path, keeper_pid: int, connection: socket.socket
) -> AgentExit:
    """From start to end. A fault is said in the agent's log and on stderr. The caller ends the
    process right afterwards: the event loop is left as it is."""
    log_file: Path | None = None
    try:
        settings = read_settings(env, directory)
        log_file = settings.log_directory / AGENT_LOG
        set_up_log(log_file)
        job, pem = read_files(settings)
        # Not asyncio.run: its farewell waits for tasks of gRPC's that may never end.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        keeper = KeeperLink(keeper_pid, connection, settings.container)
        return loop.run_until_complete(_live(settings, job, pem, keeper, log_file))
    except WireMismatch as error:
        _complain(log_file, str(error))
        return AgentExit.REFUSED
    except YarnamError as error:
        _complain(log_file, str(error))
        return AgentExit.FAULT


async def _live(
    settings: Settings, job: TaskJob, pem: bytes, keeper: KeeperLink, log_file: Path
) -> AgentExit:
    return await Agent(settings, job, keeper, pem, log_file).run()


def read_files(settings: Settings) -> tuple[TaskJob, bytes]:
    """The job's record and credentials. Raises BadConfig, WireMismatch."""
    here = settings.directory
    job = read_task_job(
        here / LOCAL_JOB_FILE, here / LOCAL_SECRETS_FILE, settings.ask.role, settings.service
    )
    try:
        pem = (here / LOCAL_CREDENTIALS_FILE).read_bytes()
    except OSError as error:
        raise BadConfig(f"cannot read the job's credentials: {error}") from error
    return job, pem


def set_up_log(path: Path) -> None:
    """The agent's own log. A full disk costs lines, never the agent."""
    logging.raiseExceptions = False
    handler: logging.Handler
    try:
        handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except OSError:
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)


def _complain(log_file: Path | None, text: str) -> None:
    if log_file is not None:
        _LOG.error("%s", text)
    sys.stderr.write(f"yarnam agent: {text}\n")
