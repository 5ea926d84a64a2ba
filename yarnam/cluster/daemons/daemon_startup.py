"""Start daemons and wait until each is ready, or report exactly why it is not."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.daemons import daemon_probes
from yarnam.cluster.daemons.daemon_processes import start, tail
from yarnam.cluster.hadoop.daemon_commands import daemon_command, kind
from yarnam.cluster.reporters import Reporter
from yarnam.errors import Unavailable

# A daemon takes 3 to 8 s on an idle machine; a machine that is slower than this is too slow.
READY_LIMIT_S = 120.0
LOG_LINES = 10
SEARCHED_LINES = 400
_POLL_S = 0.15
_ERROR = re.compile(r" (ERROR|FATAL) |^Caused by|^[\w.]+(Exception|Error)\b")
_NOISE = re.compile(r"\s+(at |\.\.\. \d+ more)|SHUTDOWN_MSG|/?\*{20,}/?")
_TAKEN = ("Address already in use", "BindException", "Problem binding to")

_NAMES = {
    "nn": "NameNode",
    "dn": "DataNode",
    "rm": "ResourceManager",
    "nm": "NodeManager",
    "zk": "ZooKeeper",
    "relay": "DataNode relay",
    "kdc": "Kerberos KDC",
}


class DaemonFailed(Unavailable):
    """A daemon died or did not become ready; the message holds the end of its log."""

    def __init__(self, message: str, *, hint: str = "", port_taken: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.port_taken = port_taken


def full_name(daemon: str) -> str:
    """``nm3`` is NodeManager 3."""
    number = daemon.removeprefix(kind(daemon))
    return f"{_NAMES[kind(daemon)]} {number}".rstrip()


@dataclass(slots=True)
class _Starting:
    process: subprocess.Popen[bytes]
    since: float
    # By the wall clock, which is the one daemons write into their reports.
    born: float
    missing: str = "no answer yet"


class DaemonStartup:
    """Starts daemons of one cluster, several at a time.

    Args:
        check: called at every poll; raises to give up.
        ready_limit_s: seconds within which a daemon must be ready.
    """

    def __init__(
        self,
        plan: ClusterPlan,
        reporter: Reporter,
        check: Callable[[], None] = lambda: None,
        ready_limit_s: float = READY_LIMIT_S,
    ) -> None:
        self._ready_limit_s = ready_limit_s
        self._check = check
        self._plan = plan
        self._reporter = reporter
        self._starting: dict[str, _Starting] = {}

    def start(self, daemon: str) -> None:
        """Start it and return immediately."""
        paths = self._plan.paths
        # The report of a failure must not quote the log of an earlier run.
        paths.log(daemon).unlink(missing_ok=True)
        command = daemon_command(self._plan, daemon)
        process = start(command, paths.out(daemon), paths.process_record(daemon))
        self._starting[daemon] = _Starting(process, time.monotonic(), time.time())
        self._reporter.waiting(daemon, "starting")

    def wait(self, daemons: Iterable[str]) -> None:
        """Return when all of ``daemons`` are ready; raise on the first that fails."""
        wanted = set(daemons)
        while wanted & self._starting.keys():
            self.poll()
            if wanted & self._starting.keys():
                time.sleep(_POLL_S)

    def poll(self) -> None:
        """Probe every daemon that is starting, once."""
        self._check()
        nodes = self._nodes()
        for daemon, starting in list(self._starting.items()):
            self._check_alive(daemon, starting)
            try:
                _probe(self._plan, daemon, nodes, starting.born)
            except daemon_probes.NotReady as missing:
                self._not_yet(daemon, starting, str(missing))
            else:
                seconds = time.monotonic() - starting.since
                del self._starting[daemon]
                self._reporter.ready(daemon, seconds)

    def wait_for(self, what: str, check: Callable[[], None], daemon: str, limit_s: float) -> None:
        """Wait until ``check`` no longer raises NotReady, watching all daemons that are starting.
        ``daemon`` is blamed when that takes longer than ``limit_s``. Raises DaemonFailed."""
        since = time.monotonic()
        while True:
            self.poll()
            try:
                check()
            except daemon_probes.NotReady as missing:
                if time.monotonic() - since > limit_s:
                    raise self._failure(
                        daemon, f"{what} took longer than {limit_s:.0f} s ({missing})"
                    ) from missing
                time.sleep(_POLL_S)
            else:
                return

    def _nodes(self) -> list[daemon_probes.NodeState] | daemon_probes.NotReady:
        if not any(kind(daemon) == "nm" for daemon in self._starting):
            return []
        try:
            return daemon_probes.node_states(self._plan)
        except daemon_probes.NotReady as missing:
            return missing

    def _check_alive(self, daemon: str, starting: _Starting) -> None:
        code = starting.process.poll()
        if code is not None:
            how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
            raise self._failure(daemon, how)

    def _not_yet(self, daemon: str, starting: _Starting, missing: str) -> None:
        if missing != starting.missing:
            starting.missing = missing
            self._reporter.waiting(daemon, missing)
        if time.monotonic() - starting.since > self._ready_limit_s:
            text = f"was not ready after {self._ready_limit_s:.0f} s ({missing})"
            raise self._failure(daemon, text)

    def _failure(self, daemon: str, how: str) -> DaemonFailed:
        self._reporter.failed(daemon)
        return daemon_failure(self._plan, daemon, how)


def daemon_failure(plan: ClusterPlan, daemon: str, how: str) -> DaemonFailed:
    """The error that quotes the end of the daemon's log and output."""
    log, out = plan.paths.log(daemon), plan.paths.out(daemon)
    lines = [*error_excerpt(tail(log, SEARCHED_LINES)), *error_excerpt(tail(out, SEARCHED_LINES))]
    quoted = "\n".join(f"    {line[:400]}" for line in lines) or "    (nothing)"
    return DaemonFailed(
        f"{full_name(daemon)} ({daemon}) {how}; the end of its log:\n{quoted}",
        hint=f"Full log: {log} (and {out})",
        port_taken=any(sign in line for line in lines for sign in _TAKEN),
    )


def error_excerpt(lines: list[str]) -> list[str]:
    """The last lines, and before them the last lines that name an error. Stack frames and the
    shutdown banner are dropped. A daemon that gives up logs the reason first, and then a hundred
    lines on what it is closing."""
    kept = [line for line in lines if line.strip() and not _NOISE.match(line)]
    earlier, last = kept[:-LOG_LINES], kept[-LOG_LINES:]
    errors = [line for line in dict.fromkeys(earlier) if _ERROR.search(line) and line not in last]
    return [*errors[-LOG_LINES:], *last]


def _probe(
    plan: ClusterPlan,
    daemon: str,
    nodes: list[daemon_probes.NodeState] | daemon_probes.NotReady,
    born: float,
) -> None:
    match kind(daemon):
        case "kdc":
            daemon_probes.kdc_answers(plan)
        case "relay":
            daemon_probes.relay_listens(plan)
        case "zk":
            daemon_probes.zookeeper_answers(plan)
        case "nn":
            daemon_probes.namenode_answers(plan)
        case "dn":
            daemon_probes.datanode_is_live(plan, daemon)
        case "rm":
            daemon_probes.rm_answers(plan, daemon)
        case "nm":
            if isinstance(nodes, daemon_probes.NotReady):
                raise nodes
            daemon_probes.node_is_running(plan, daemon, nodes, born)
