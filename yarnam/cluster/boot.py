"""Start daemons and wait until each does its work, or say exactly why it does not."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from yarnam.cluster import probes
from yarnam.cluster.commands import daemon_command, kind
from yarnam.cluster.plan import ClusterPlan
from yarnam.cluster.processes import start, tail
from yarnam.cluster.progress import Reporter
from yarnam.errors import Unavailable

# A daemon takes 3 to 8 s on an idle machine; a machine that is slower than this is too slow.
READY_LIMIT_S = 120.0
LOG_LINES = 10
SEARCHED_LINES = 400
_POLL_S = 0.15
_ERROR = re.compile(r" (ERROR|FATAL) |^Caused by|^[\w.]+(Exception|Error)\b")
_IDLE_TALK = re.compile(r"\s+(at |\.\.\. \d+ more)|SHUTDOWN_MSG|/?\*{20,}/?")
_TAKEN = ("Address already in use", "BindException", "Problem binding to")

_NAMES = {
    "nn": "NameNode",
    "dn": "DataNode",
    "rm": "ResourceManager",
    "nm": "NodeManager",
    "zk": "ZooKeeper",
    "relay": "DataNode relay",
}


class DaemonFailed(Unavailable):
    """A daemon died or did not become ready; the message holds its last words."""

    def __init__(self, message: str, *, hint: str = "", port_taken: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.port_taken = port_taken


def full_name(daemon: str) -> str:
    number = daemon.removeprefix(kind(daemon))
    return f"{_NAMES[kind(daemon)]} {number}".rstrip()


@dataclass(slots=True)
class _Starting:
    process: subprocess.Popen[bytes]
    since: float
    # By the wall clock, which is the one daemons write into their reports.
    born: float
    missing: str = "no answer yet"


class Boot:
    """Brings daemons of one cluster up, several at a time."""

    def __init__(
        self,
        plan: ClusterPlan,
        reporter: Reporter,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """``check`` is called at every look and may raise to give up."""
        self._check = check
        self._plan = plan
        self._reporter = reporter
        self._starting: dict[str, _Starting] = {}

    def start(self, daemon: str) -> None:
        places = self._plan.places
        # The report of a failure must not quote an earlier life's last words.
        places.log(daemon).unlink(missing_ok=True)
        command = daemon_command(self._plan, daemon)
        process = start(command, places.out(daemon), places.process_record(daemon))
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
        """Look once at every daemon that is on its way."""
        self._check()
        nodes = self._nodes()
        for daemon, starting in list(self._starting.items()):
            self._check_alive(daemon, starting)
            try:
                _probe(self._plan, daemon, nodes, starting.born)
            except probes.NotReady as missing:
                self._not_yet(daemon, starting, str(missing))
            else:
                seconds = time.monotonic() - starting.since
                del self._starting[daemon]
                self._reporter.ready(daemon, seconds)

    def wait_for(self, what: str, check: Callable[[], None], daemon: str, limit_s: float) -> None:
        """Wait for a condition that one daemon answers for, watching all that are starting."""
        since = time.monotonic()
        while True:
            self.poll()
            try:
                check()
            except probes.NotReady as missing:
                if time.monotonic() - since > limit_s:
                    raise self._failure(
                        daemon, f"{what} took longer than {limit_s:.0f} s ({missing})"
                    ) from missing
                time.sleep(_POLL_S)
            else:
                return

    def _nodes(self) -> list[probes.NodeState] | probes.NotReady:
        if not any(kind(daemon) == "nm" for daemon in self._starting):
            return []
        try:
            return probes.node_states(self._plan)
        except probes.NotReady as missing:
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
        if time.monotonic() - starting.since > READY_LIMIT_S:
            raise self._failure(daemon, f"was not ready after {READY_LIMIT_S:.0f} s ({missing})")

    def _failure(self, daemon: str, how: str) -> DaemonFailed:
        self._reporter.failed(daemon)
        return daemon_failure(self._plan, daemon, how)


def daemon_failure(plan: ClusterPlan, daemon: str, how: str) -> DaemonFailed:
    """What went wrong, with the last lines of the daemon's log and output."""
    log, out = plan.places.log(daemon), plan.places.out(daemon)
    words = [*telling(tail(log, SEARCHED_LINES)), *telling(tail(out, SEARCHED_LINES))]
    quoted = "\n".join(f"    {line[:400]}" for line in words) or "    (it said nothing)"
    return DaemonFailed(
        f"{full_name(daemon)} ({daemon}) {how}; its last words:\n{quoted}",
        hint=f"The whole log: {log} (and {out})",
        port_taken=any(sign in line for line in words for sign in _TAKEN),
    )


def telling(lines: list[str]) -> list[str]:
    """The last lines, and before them the last that name an error.

    Stack frames and the farewell banner are left out. A daemon that gives up says why, and then a
    hundred times what it is closing.
    """
    kept = [line for line in lines if line.strip() and not _IDLE_TALK.match(line)]
    earlier, last = kept[:-LOG_LINES], kept[-LOG_LINES:]
    errors = [line for line in dict.fromkeys(earlier) if _ERROR.search(line) and line not in last]
    return [*errors[-LOG_LINES:], *last]


def _probe(
    plan: ClusterPlan,
    daemon: str,
    nodes: list[probes.NodeState] | probes.NotReady,
    born: float,
) -> None:
    match kind(daemon):
        case "relay":
            probes.relay_listens(plan)
        case "zk":
            probes.zookeeper_answers(plan)
        case "nn":
            probes.namenode_answers(plan)
        case "dn":
            probes.datanode_is_live(plan, daemon)
        case "rm":
            probes.rm_answers(plan)
        case "nm":
            if isinstance(nodes, probes.NotReady):
                raise nodes
            probes.node_is_running(plan, daemon, nodes, born)
