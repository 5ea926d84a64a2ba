"""Checks suspected inputs: takes reports, sends check orders to nodes, and writes claims to the
blacklist."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from hdfs_utils import HdfsError
from hdfs_utils.blacklist import FileVersion, Key, State
from hdfs_utils.errors import NotADirectory, NotFound
from hdfs_utils.validation.check_in_subprocess import CheckOutcome
from yarnam.am.inputs.watched_inputs import WatchedInput, WatchedInputs, Worker
from yarnam.core.inputs.suspicions import (
    CHECK_LIMIT_S,
    CheckResult,
    Decision,
    Suspect,
    Suspicion,
    Suspicions,
    named_inputs,
)
from yarnam.core.model.job_status import SuspectStatus
from yarnam.ports.job_inputs import CheckOrder, InputEndpoint

log = logging.getLogger("yarnam.inputs")

ALIVE_S = 30.0
"""An agent that has not requested work for this long gets none: one and a half times its poll."""
CHECK_AGAIN_S = 30.0

STATES = {Decision.PROVED: State.PROVED, Decision.SUSPECTED: State.SUSPECTED}
"""The claim that a decision makes in the blacklist. A file that the storage has lost is not
corrupt: it is cleared."""

CheckHere = Callable[[str, float], CheckOutcome]
"""Check a file (URI, limit in seconds) on this node, in a process of its own."""


class Rechecks:
    """``node``: this one's name. Methods are thread-safe; those that say so block."""

    def __init__(
        self,
        inputs: WatchedInputs,
        worker: Worker,
        endpoint: InputEndpoint,
        check_here: CheckHere,
        node: str,
        now_s: Callable[[], float],
    ) -> None:
        self._inputs = inputs
        self._worker = worker
        self._endpoint = endpoint
        self._check_here = check_here
        self._node = node
        self._now_s = now_s
        self._lock = threading.Lock()
        self._suspicions = Suspicions()
        self._agents_seen_s: dict[str, float] = {}
        self._is_alone = False
        self._with_agents: set[int] = set()
        """Numbers of the checks that were given to agents."""
        self._due = threading.Event()
        self._thread = threading.Thread(
            target=self._check_on_this_node, name="input-checks", daemon=True
        )

    def start(self) -> None:
        """Begin to check files on this node, one after the other."""
        self._thread.start()

    def close(self) -> None:
        """Takes at most 1 s: a check under way ends with this process."""
        self._due.set()
        self._thread.join(1.0)

    def status(self) -> tuple[SuspectStatus, ...]:
        """All suspected files, oldest first."""
        with self._lock:
            return tuple(
                SuspectStatus(
                    path,
                    suspicion.state,
                    suspicion.conclusion.evidence if suspicion.conclusion else "",
                )
                for path, suspicion in self._suspicions.suspicions.items()
            )

    @property
    def open_count(self) -> int:
        with self._lock:
            return self._suspicions.open_count

    # ---- complaints (blocking: for the worker) -------------------------------------------

    def read_last_words(self, node: str, lines: Sequence[str]) -> None:
        """Opens a suspicion where the last lines of a failed process name an input."""
        self._inputs.begin()
        roots: dict[str, str] = {}
        for watched in self._inputs.all():
            roots |= {
                watched.given.uri.rstrip("/"): watched.root,
                watched.root.rstrip("/"): watched.root,
            }
        roots.pop("", None)
        for path in named_inputs(lines, roots):
            last = lines[-1].strip()[:300]
            self.suspect(Suspect(path, f"a process that failed named it: {last}", node))

    def suspect(self, suspect: Suspect) -> None:
        """Open a suspicion and publish it to the other jobs."""
        self._inputs.begin()
        watched = self._inputs.find(suspect.path)
        if watched is None:
            log.warning("%s is suspected, but is in no input of the job", suspect.path)
            return
        path = watched.files.own_path(suspect.path)
        try:
            status = watched.files.stat(path)
        except (NotFound, NotADirectory):
            return
        if status.is_dir:
            return
        with self._lock:
            is_new = self._suspicions.add(replace(suspect, path=path))
        if is_new:
            log.info("%s is suspected on %s: %s", path, suspect.node, suspect.reason)
            self._wake()
            key = Key(path, FileVersion(status.length, status.mtime_ms))
            said = f"{suspect.node}: {suspect.reason}"
            self._inputs.claim(watched, key, State.SUSPECTED, "skipped-while-training", said)

    # ---- looks ---------------------------------------------------------------------------

    def next_check(self, node: str) -> CheckOrder | None:
        """See ``ports.job_inputs.InputService``."""
        with self._lock:
            if self._is_alone:
                return None
        check = self._next_check(node)
        if check is not None:
            with self._lock:
                self._with_agents.add(check.number)
        return check

    def _next_check(self, node: str) -> CheckOrder | None:
        with self._lock:
            self._agents_seen_s[node] = self._now_s()
            order = self._suspicions.next_order(node, self._alive(), self._now_s())
        watched = self._inputs.find(order.path) if order is not None else None
        if order is None or watched is None:
            return None
        log.info("%s checks %s", node, order.path)
        return CheckOrder(order.number, f"{watched.files.uri}{order.path}", CHECK_LIMIT_S)

    def checked(self, number: int, outcome: CheckOutcome) -> None:
        """See ``ports.job_inputs.InputService``."""
        with self._lock:
            self._suspicions.done(number, outcome)
        self._worker.put(self.conclude)

    def without_agents(self) -> None:
        """The agents are leaving: from now on this node checks what is left."""
        with self._lock:
            self._is_alone = True
            self._agents_seen_s.clear()
            # An agent of this very node would else be waited for, as if it were this process.
            for number in self._with_agents:
                self._suspicions.withdraw(number)
        self._worker.put(self.conclude)

    def conclude(self) -> None:
        """Closes each suspicion that can be decided. Blocks: call it in the worker."""
        with self._lock:
            concluded = self._suspicions.settle(self._alive(), self._now_s())
            has_open = bool(self._suspicions.open_count)
        if has_open:
            self._wake()
        for suspicion in concluded:
            self._conclude(suspicion)

    def _conclude(self, suspicion: Suspicion) -> None:
        assert suspicion.conclusion is not None
        conclusion, path = suspicion.conclusion, suspicion.suspect.path
        log.info("%s: %s: %s", path, conclusion.decision.value, conclusion.evidence)
        watched = self._inputs.find(path)
        if watched is None or conclusion.decision is Decision.GONE:
            return
        key = self._key(watched, path, conclusion.outcome)
        if key is not None:
            state = STATES.get(conclusion.decision, State.CLEARED)
            self._inputs.claim(watched, key, state, conclusion.reason, conclusion.evidence)

    def _key(self, watched: WatchedInput, path: str, outcome: CheckResult | None) -> Key | None:
        """The version of the file that was checked, or else the present one."""
        if outcome is not None and outcome.mtime_ms:
            return Key(path, FileVersion(outcome.length, outcome.mtime_ms))
        with suppress(HdfsError):
            status = watched.files.stat(path)
            return Key(path, FileVersion(status.length, status.mtime_ms))
        return None

    def _check_on_this_node(self) -> None:
        while not self._worker.is_closed.is_set():
            self._due.wait(CHECK_AGAIN_S)
            self._due.clear()
            while not self._worker.is_closed.is_set():
                check = self._next_check(self._node)
                if check is None:
                    break
                try:
                    outcome = self._check_here(check.uri, check.limit_s)
                except Exception as error:
                    log.exception("the check of %s failed", check.uri)
                    outcome = CheckOutcome("not checked", "check-failed", str(error))
                self.checked(check.number, outcome)

    def _wake(self) -> None:
        self._due.set()
        self._endpoint.wake()

    def _alive(self) -> list[str]:
        """Nodes that can check a file, this one first: it has no GPU work to disturb."""
        now_s = self._now_s()
        agents = [node for node, at_s in self._agents_seen_s.items() if now_s - at_s <= ALIVE_S]
        return list(dict.fromkeys((self._node, *agents)))
