"""Logs that YARN keeps: aggregated ones by ``yarn logs`` or from HDFS; from NodeManagers the AM's
live ones, and those of an ended job where YARN aggregates none.

All but those from HDFS come in the same format: a head of lines, ``LogContents:``, then as many
bytes as ``LogLength`` says. Skein's own reader does not know the paths of Hadoop 3.3 and later.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from hdfs_utils import HdfsError
from hdfs_utils.errors import MalformedData
from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.error_map import as_yarnam
from yarnam.adapters.yarn.addresses import read_settings
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.errors import Unavailable
from yarnam.errors.full_disks import full_disk_named
from yarnam.wire.http_request import HttpError

with on_first_use():
    from yarnam.adapters.hdfs import aggregated_files

if TYPE_CHECKING:
    from yarnam.client.monitor.job_sources import JobSources
    from yarnam.client.site import Site
    from yarnam.core.model.job_status import JobStatus

AM_FILES = ("application.driver.log", "application.master.log")
"""Skein's names for the logs of the AM's script (ours) and of its Java half."""

AGENT_FILE = "agent.log"

TOOL_LIMIT_S = 300.0
"""How long ``yarn logs`` may take to print everything."""

NM_LIMIT_S = 5.0
MAX_LIVE_LOG_BYTES = 256 << 20
"""How much of a log is read from a NodeManager; it is held in memory."""

_TRIAL_BYTES = 64 << 10
"""Bytes that still fit behind what a program has written: more than Java writes in one piece."""

_PROCESS_FILE = re.compile(r"(.+-\d+)\.(\d+)\.log")
_LENGTH = re.compile(rb"LogLength:\s*([0-9]{1,18})\s*$")
_CONTAINER = re.compile(rb"Container: (\S+) on ")
_UNFINISHED = frozenset({"NOT_START", "RUNNING", "RUNNING_WITH_FAILURE"})
"""The final ones of YARN's log aggregation states."""
_DISABLED = "DISABLED"
"""The state where YARN aggregates no logs."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One whole log file of one container."""

    container: str
    name: str
    data: bytes

    @property
    def process(self) -> tuple[str, int] | None:
        """The task and local rank whose output it is; ``None`` for another kind of file."""
        match = _PROCESS_FILE.fullmatch(self.name)
        return (match[1], int(match[2])) if match else None

    @property
    def is_agents(self) -> bool:
        return self.name == AGENT_FILE

    def last_lines(self, count: int) -> bytes:
        """The last ``count`` lines; a last line without an end counts."""
        if count <= 0:
            return b""
        lines = self.data.splitlines(keepends=True)
        return b"".join(lines[-count:])


def kept_logs(sources: JobSources, status: JobStatus) -> Iterator[LogFile]:
    """All log files of an application that is over, one at a time. Raises Unavailable when YARN
    has none."""
    deadline = time.monotonic() + sources.site.timing.aggregation_limit_s
    while True:
        application = sources.look_up()
        # A gateway may keep the URL to itself.
        is_told = sources.site.gateway is None and application.started_at_s > 0
        if is_told and not application.am_log_url.startswith("http"):
            raise Unavailable(f"no container of {sources.application} ever ran: no logs")
        if application.log_aggregation == _DISABLED:
            sources.site.must_reach("logs on the nodes (the site aggregates none)")
            yield from _on_the_nodes(sources, application, status)
            return
        is_complete = application.log_aggregation not in _UNFINISHED
        complaint = "its nodes are still handing them in"
        if is_complete or time.monotonic() >= deadline:
            complaint = yield from _handed_in(sources)
            if not complaint:
                return
        is_final = is_complete and application.log_aggregation != ""
        if is_final or time.monotonic() >= deadline:
            raise Unavailable(
                f"YARN has no logs of {sources.application}: {complaint}",
                hint=(
                    "If log aggregation is off (yarn.log-aggregation-enable), they are only on "
                    "the nodes that ran the containers."
                ),
            )
        time.sleep(1.0)


def _handed_in(sources: JobSources) -> Generator[LogFile, None, str]:
    """The files that are there now. Returns why there are none; empty if there were some."""
    if _has_no_tool(sources.site):
        found_any = yield from _all_of(_from_hdfs(sources))
        return "" if found_any else "HDFS has no directory of them"
    with ExitStack() as stack:
        with full_disk_named(os.environ.get("TMPDIR") or "/tmp"):  # noqa: S108 - it is only named
            dump = stack.enter_context(tempfile.TemporaryFile(prefix="yarnam-logs-"))
            complaint = _yarn_logs(sources, dump) or "'yarn logs' prints none"
            size = dump.seek(0, os.SEEK_END)
            # Java's printing succeeds on a full disk as well: the end would be missing.
            dump.write(bytes(_TRIAL_BYTES))
            dump.truncate(size)
        if not size:
            return complaint
        with mmap.mmap(dump.fileno(), size, access=mmap.ACCESS_READ) as content:
            found_any = yield from _all_of(parse_log_dump(content))
            return "" if found_any else complaint


def _all_of(files: Iterable[LogFile]) -> Generator[LogFile, None, bool]:
    """Returns whether there were any."""
    found_any = False
    for file in files:
        found_any = True
        yield file
    return found_any


def _has_no_tool(site: Site) -> bool:
    """Whether ``yarn logs`` is not there, or could not reach HDFS."""
    return site.gateway is not None or _tool(site) is None


def _tool(site: Site) -> str | None:
    return shutil.which("yarn", path=site.environ.get("PATH"))


def _from_hdfs(sources: JobSources) -> Iterator[LogFile]:
    """Raises YarnamError; Unavailable if they are in a format that only ``yarn logs`` reads."""
    settings = read_settings(sources.site.conf_dir, "core-site.xml", "yarn-site.xml")
    files = sources.site.files
    try:
        place = aggregated_files.log_directory(files, settings, sources.user, sources.application)
        if place is not None:
            for container, name, data in aggregated_files.logs_in(files, place):
                yield LogFile(container, name, data)
    except MalformedData as error:
        raise Unavailable(
            f"the logs of {sources.application} cannot be read without YARN's tool: {error}",
            hint=f"Where 'yarn' is on the PATH: yarn logs -applicationId {sources.application}",
        ) from error
    except HdfsError as error:
        raise as_yarnam(error, f"reading the logs of {sources.application}") from error


def _yarn_logs(sources: JobSources, dump: IO[bytes]) -> str:
    """Let ``yarn logs`` write into the file; its last words."""
    environ = sources.site.environ
    yarn = _tool(sources.site) or "yarn"
    command = [yarn, "logs", "-applicationId", sources.application, "-appOwner", sources.user]
    try:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=dump,
            stderr=subprocess.PIPE,
            timeout=TOOL_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"'yarn logs' did not end within {TOOL_LIMIT_S:.0f} s") from error
    dump.seek(0)
    return _last_words((done.stderr + b"\n" + dump.read(2000)).decode(errors="replace"))


def parse_log_dump(dump: bytes | mmap.mmap) -> Iterator[LogFile]:
    """The files in the output of ``yarn logs``. Contents are taken by their length, so that
    nothing printed by a job can be mistaken for a head."""
    container, name, length = "", "", -1
    position = 0
    while position < len(dump):
        end = dump.find(b"\n", position)
        end = len(dump) if end < 0 else end
        line = dump[position:end]
        position = end + 1
        if match := _CONTAINER.match(line):
            container = match[1].decode(errors="replace")
        elif line.startswith(b"LogType:"):
            name, length = line[8:].strip().decode(errors="replace"), -1
        elif match := _LENGTH.match(line):
            length = int(match[1])
        elif line.startswith(b"LogContents:") and length >= 0:
            yield LogFile(container, name, dump[position : position + length])
            position += length
            length = -1


def live_am_logs(sources: JobSources, application: YarnApplication) -> Iterator[LogFile]:
    """The AM's logs so far, from its NodeManager. Raises Unavailable."""
    server, container = _am_container(application)
    if server:
        yield from _from_node(sources, server, container, AM_FILES)


def _am_container(application: YarnApplication) -> tuple[str, str]:
    """The web server of its NodeManager, and its name; empty if there is none."""
    parts = urlsplit(application.am_log_url)
    # http://host:port/node/containerlogs/<container>/<user>
    pieces = parts.path.strip("/").split("/")
    if not parts.netloc or len(pieces) < 3:
        return "", ""
    return f"{parts.scheme}://{parts.netloc}", pieces[2]


def _on_the_nodes(
    sources: JobSources, application: YarnApplication, status: JobStatus
) -> Iterator[LogFile]:
    """Read the logs of the AM and of the last attempt's tasks: YARN knows no other containers of an
    application that is over. NodeManagers keep them for ``yarn.nodemanager.log.retain-seconds``,
    three hours by default. Raises Unavailable."""
    am_server, am_container = _am_container(application)
    places: list[tuple[str, str, Sequence[str]]] = []
    if am_server:
        places.append((am_server, am_container, AM_FILES))
    scheme = urlsplit(am_server).scheme or "http"
    for task in status.tasks:
        if task.http_address and task.container:
            processes = (f"{task.task}.{local}.log" for local in range(len(task.ranks)))
            server = f"{scheme}://{task.http_address}"
            places.append((server, task.container, (AGENT_FILE, *processes)))
    found_any = False
    trouble = "their NodeManagers keep none"
    for server, container, names in places:
        try:
            for file in _from_node(sources, server, container, names):
                found_any = True
                yield file
        except Unavailable as error:
            trouble = error.message
    if not found_any:
        raise Unavailable(
            f"YARN has no logs of {sources.application}: {trouble}",
            hint=(
                "Log aggregation is off (yarn.log-aggregation-enable): logs are only on the nodes "
                "that ran the containers, for yarn.nodemanager.log.retain-seconds."
            ),
        )


def _from_node(
    sources: JobSources, server: str, container: str, names: Sequence[str]
) -> Iterator[LogFile]:
    """Those of the names that there are. Raises Unavailable."""
    for name in names:
        url = f"{server}/ws/v1/node/containers/{container}/logs/{name}"
        try:
            answer = sources.site.who.get(url, timeout_s=NM_LIMIT_S, max_bytes=MAX_LIVE_LOG_BYTES)
        except HttpError as error:
            if error.status in {400, 404}:
                continue  # not written yet, or not kept any more
            raise Unavailable(f"the NodeManager {server} shows no log: {error}") from error
        for file in parse_log_dump(answer.body):
            yield LogFile(container, file.name, file.data)


def _last_words(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it says nothing"
