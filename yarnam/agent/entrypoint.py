"""The agent as a process: reads its files, sets up its own log, runs."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from yarnam.agent.agent import Agent
from yarnam.agent.keeper.keeper_client import KeeperClient
from yarnam.agent.machine.agent_state import AgentExit
from yarnam.agent.task_config import (
    ContainerSettings,
    TaskJob,
    read_container_settings,
    read_job_files,
)
from yarnam.core.model.printable import printable_lines
from yarnam.errors import WireMismatch, YarnamError
from yarnam.errors.full_disks import full_disk_named

AGENT_LOG = "agent.log"

_LOG = logging.getLogger("yarnam.agent")


def run_agent(
    env: Mapping[str, str],
    directory: Path,
    keeper_pid: int,
    connection: socket.socket,
    formatter: logging.Formatter,
) -> AgentExit:
    """From start to end. A fault goes to the agent's log and to stderr. The caller ends the process
    right afterwards: the event loop is left as it is."""
    log_file: Path | None = None
    try:
        settings = read_container_settings(env, directory)
        log_file = settings.log_directory / AGENT_LOG
        set_up_log(log_file, formatter)
        job, pem = read_job_files(settings)
        # Not asyncio.run: at its end it waits for tasks of gRPC's that may never end.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        keeper = KeeperClient(keeper_pid, connection, settings.container)
        with full_disk_named(directory, settings.log_directory):
            return loop.run_until_complete(_run(settings, job, pem, keeper, log_file))
    except WireMismatch as error:
        _log_fault(log_file, str(error))
        return AgentExit.REFUSED
    except YarnamError as error:
        _log_fault(log_file, str(error))
        return AgentExit.FAULT


async def _run(
    settings: ContainerSettings, job: TaskJob, pem: bytes, keeper: KeeperClient, log_file: Path
) -> AgentExit:
    return await Agent(settings, job, keeper, pem, log_file).run()


def set_up_log(path: Path, formatter: logging.Formatter) -> None:
    """The agent's own log. A full disk costs lines, never the agent."""
    logging.raiseExceptions = False
    handler: logging.Handler
    try:
        handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except OSError:
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)


def _log_fault(log_file: Path | None, text: str) -> None:
    if log_file is not None:
        _LOG.error("%s", text)
    with suppress(OSError):
        sys.stderr.write(f"yarnam agent: {printable_lines(text)}\n")
