"""``ports.ContainerBroker`` over Skein: asks become containers of the services declared at submit.

Skein tells nothing on its own, so one thread asks for the state of the containers: often while a
grant is awaited, seldom while nothing changes. Skein's books are trusted for what exists; the asks
are ours, so whatever exists without an ask is released."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from yarnam.adapters.process_lifetime import leave_at_once
from yarnam.adapters.skein import am_client
from yarnam.adapters.skein.adopted_containers import AdoptedContainers
from yarnam.adapters.skein.early_containers import EarlyContainer, EarlyContainers, assignment
from yarnam.adapters.skein.response_log import CompletedContainer, PreemptionNotice, UpdatedNode
from yarnam.adapters.skein.responses import Responses
from yarnam.core.failures.process_failure import container_finding
from yarnam.core.failures.shipped_rules import SHIPPED_RULES
from yarnam.core.model.actions import AdoptedTask, AskContainer
from yarnam.core.model.events import (
    BrokerFailed,
    ContainerEnded,
    ContainerGranted,
    ContainersMarked,
    NodeLeaving,
)
from yarnam.core.model.ids import AskId, ContainerId, NodeId, RackId, node_of_address
from yarnam.core.model.outcomes import ContainerEnd, Verdict, VerdictKind
from yarnam.core.model.printable import printable
from yarnam.errors import ExitCode, Unavailable, YarnamError
from yarnam.ports import Inbox
from yarnam.wire.protocol import ENV_ASK, assignment_key

Locate = Callable[[str], "tuple[NodeId, RackId] | None"]
"""From a NodeManager's HTTP address to its node and rack; ``None`` means not known now."""

EAGER_POLL_S = 0.1
"""While a grant is awaited: the AM's heartbeat, which brings grants, comes every 0.5 s. A call
takes two milliseconds on the same node."""
CALM_POLL_S = 0.5
"""While containers run and nothing is awaited. Agents tell of most ends much sooner."""
IDLE_POLL_S = 2.0
"""With nothing held: only whether Skein's AM still lives."""

GONE_LIMIT_S = 60.0
"""This AM attempt ends when Skein's AM has not answered for this long, and immediately when that
has died. YARN itself waits for 600 s."""
LOCATE_LIMIT_S = 10.0
"""A granted node that the RM's node list does not show within this time is reported without a
rack, which the gang machine treats as a misfit."""
STRAY_LIMIT_S = 10.0
"""A container without an ask (its answer to addContainer was lost) is killed after this time:
longer than an ``ask`` may take, so that none is killed between its grant and its answer."""


@dataclass(frozen=True, slots=True)
class BrokerTiming:
    """How often the broker polls and how long it waits, in seconds."""

    eager_poll_s: float = EAGER_POLL_S
    calm_poll_s: float = CALM_POLL_S
    idle_poll_s: float = IDLE_POLL_S
    gone_s: float = GONE_LIMIT_S
    locate_s: float = LOCATE_LIMIT_S
    stray_s: float = STRAY_LIMIT_S


DIAGNOSTICS_LIMIT = 4000
"""Characters. YARN cuts at 64 KiB; what users read is the beginning."""

PREEMPTED_STATUS = -102
"""ContainerExitStatus.PREEMPTED of YARN."""

DECOMMISSIONING = "DECOMMISSIONING"
"""NodeState of YARN."""

_FINAL_STATUS = {
    VerdictKind.SUCCEEDED: "SUCCEEDED",
    VerdictKind.FAILED: "FAILED",
    VerdictKind.CANCELLED: "KILLED",
}


@dataclass(slots=True)
class _Held:
    """A container asked for and not yet ended or released."""

    ask: AskId
    is_granted: bool = False
    granted_at: float | None = None
    container: ContainerId | None = None
    node: NodeId | None = None


class SkeinBroker:
    """See the module. Thread-safe."""

    def __init__(
        self,
        skein: am_client.SkeinAm,
        locate: Locate,
        *,
        agent_env: Callable[[], Mapping[str, str]] = dict,
        early_containers: EarlyContainers | None = None,
        responses: Responses | None = None,
        releases: Path | None = None,
        am_attempt: int = 1,
        timing: BrokerTiming = BrokerTiming(),  # immutable
        end_attempt: Callable[[str], object] = leave_at_once,
    ) -> None:
        """``agent_env``: what each agent's environment gets besides its ask (the AM's address).
        ``early_containers``: requested by Skein itself, for asks to take over. ``responses``: what
        Skein does not pass on. ``releases``: the file of containers of earlier attempts for the
        interceptor to release. ``end_attempt`` is called with the reason when Skein hangs."""
        self._skein = skein
        self._locate = locate
        self._agent_env = agent_env
        self._early_containers = EarlyContainers() if early_containers is None else early_containers
        self._responses = Responses() if responses is None else responses
        self._adopted = AdoptedContainers(self._responses, releases)
        self._am_attempt = am_attempt
        self._timing = timing
        self._end_attempt = end_attempt
        self._inbox: Inbox = lambda event: None
        self._lock = threading.Lock()
        self._held: dict[am_client.ContainerKey, _Held] = {}
        self._keys: dict[AskId, am_client.ContainerKey] = {}
        self._unanswered: dict[AskId, AskContainer] = {}
        self._released: set[am_client.ContainerKey] = set()
        self._strays: dict[am_client.ContainerKey, float] = {}
        self._wake = threading.Event()
        self._closed = False
        self._has_failed = False
        self._answered_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="skein-poll", daemon=True)

    # ---- the port ------------------------------------------------------------------------

    def start(self, inbox: Inbox) -> Sequence[ContainerId]:
        self._inbox = inbox
        kept = self._adopted.kept() if self._am_attempt > 1 else ()
        self._answered_at = time.monotonic()
        self._early_containers.start()
        self._thread.start()
        return kept

    def adopt(self, tasks: Sequence[AdoptedTask]) -> None:
        with self._lock:
            self._adopted.adopt(tasks)
        self._wake.set()

    def release_kept(self, containers: Sequence[ContainerId]) -> None:
        with self._lock:
            self._adopted.release_kept(containers)

    def ask(self, asks: Sequence[AskContainer]) -> None:
        with self._lock:
            known = self._keys.keys() | self._unanswered.keys()
            wanted = [ask for ask in asks if ask.ask not in known]
        failed = self._add(self._take_over(wanted))
        if failed:
            # Once more: a lost answer leaves a stray, which the poll releases.
            failed = self._add([ask for ask, _ in failed])
        if wanted:
            # The first asks are the whole gang's: what they do not take nobody will. Given back
            # after the others are asked for: Skein uses the priority of a withdrawn ask again, and
            # YARN loses an ask of another size that comes with it under the same priority.
            self._give_back(self._early_containers.drop())
        with self._lock:
            self._unanswered.update({ask.ask: ask for ask, _ in failed})
        self._fail_refused(failed)
        self._wake.set()

    def release(self, asks: Sequence[AskId]) -> None:
        with self._lock:
            for ask in asks:
                self._unanswered.pop(ask, None)
            self._adopted.release(asks)
            keys = [self._keys[ask] for ask in asks if ask in self._keys]
            keys = [key for key in keys if self._held.pop(key, None) is not None]
            self._released.update(keys)
        for key in keys:
            self._kill(key)
        self._wake.set()

    def set_progress(self, fraction: float) -> None:
        try:
            self._skein.set_progress(min(1.0, max(0.0, fraction)))
        except YarnamError:
            pass  # YARN's bar is a courtesy.

    def shutdown(self, verdict: Verdict) -> None:
        self.close()
        self._skein.shutdown(_FINAL_STATUS[verdict.kind], diagnostics(verdict))

    def close(self) -> None:
        """End the polling; what is held stays. Idempotent."""
        self._closed = True
        self._wake.set()

    def unclaimed_early(self) -> Sequence[EarlyContainer]:
        """The early containers that no ask has taken over."""
        return self._early_containers.unclaimed()

    # ---- asking --------------------------------------------------------------------------

    def _take_over(self, asks: Sequence[AskContainer]) -> list[AskContainer]:
        """Early containers first; returns the asks that are left."""
        left = []
        for ask in asks:
            key = self._early_containers.claim(ask.target.service)
            if key is None:
                left.append(ask)
                continue
            self._hold(key, ask.ask)
            try:
                name = f"{key.service}_{key.instance}"
                told = assignment(ask.ask, self._agent_env())
                self._skein.write_key(assignment_key(name), told)
            except YarnamError:
                # Its agent would wait in vain.
                self._forget(key, ask.ask)
                self._kill(key)
                left.append(ask)
        return left

    def _give_back(self, keys: Sequence[am_client.ContainerKey]) -> None:
        with self._lock:
            self._released.update(keys)
        for key in keys:
            self._kill(key)

    def _forget(self, key: am_client.ContainerKey, ask: AskId) -> None:
        with self._lock:
            self._held.pop(key, None)
            self._keys.pop(ask, None)
            self._released.add(key)

    def _add(self, asks: Sequence[AskContainer]) -> list[tuple[AskContainer, YarnamError]]:
        common = dict(self._agent_env())
        wanted = [(ask.target.service, {**common, ENV_ASK: str(ask.ask)}) for ask in asks]
        failed = []
        for ask, result in zip(asks, self._skein.add(wanted), strict=True):
            if isinstance(result, YarnamError):
                failed.append((ask, result))
            else:
                self._hold(result, ask.ask)
        return failed

    def _ask_again(self) -> None:
        """For what Skein, which answers now, did not answer to."""
        with self._lock:
            asks = list(self._unanswered.values())
        if not asks:
            return
        failed = self._add(asks)
        self._fail_refused(failed)
        added = {ask.ask for ask in asks} - {ask.ask for ask, _ in failed}
        with self._lock:
            released = [ask for ask in added if self._unanswered.pop(ask, None) is None]
        if released:
            self.release(released)

    def _fail_refused(self, failed: Sequence[tuple[AskContainer, YarnamError]]) -> None:
        refused = [(ask, error) for ask, error in failed if not isinstance(error, Unavailable)]
        if refused:
            ask, error = refused[0]
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            self._fail(f"asking for {ask.ask} of {ask.target.service}{more}: {error.message}")

    def _hold(self, key: am_client.ContainerKey, ask: AskId) -> None:
        with self._lock:
            self._held[key] = _Held(ask)
            self._keys[ask] = key
            self._strays.pop(key, None)

    def _kill(self, key: am_client.ContainerKey) -> None:
        try:
            self._skein.kill(key)
        except YarnamError:
            pass  # It is in ``_released``: the next poll that still sees it kills it again.

    # ---- polling -------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            self._wake.clear()
            try:
                self._poll()
                self._answered_at = time.monotonic()
            except Unavailable as error:
                silent_s = time.monotonic() - self._answered_at
                if silent_s > self._timing.gone_s:
                    self._closed = True
                    self._end_attempt(f"no answer for {silent_s:.0f} s: {error.message}")
            except YarnamError as error:
                self._fail(error.message)
            self._wake.wait(self._pause_s())

    def _pause_s(self) -> float:
        with self._lock:
            if self._unanswered or any(not held.is_granted for held in self._held.values()):
                return self._timing.eager_poll_s
            is_calm = self._held or self._adopted or self._early_containers
            return self._timing.calm_poll_s if is_calm else self._timing.idle_poll_s

    def _poll(self) -> None:
        with self._lock:
            before = dict(self._held)
        self._give_back(self._early_containers.drop(only_if_due=True))
        rows = {row.key: row for row in self._skein.containers(am_client.ACTIVE)}
        self._ask_again()
        for key in sorted(rows.keys() - before.keys()):
            self._meet(rows[key])
        for key, held in before.items():
            row = rows.get(key)
            if row is not None and row.state == am_client.RUNNING and not held.is_granted:
                self._grant(row, held)
        # Skein passes on what the log has already.
        self._report(self._responses.poll())
        ended = before.keys() - rows.keys()
        if ended:
            self._end(ended)
        self._end_adopted()

    def _report(self, news: Sequence[PreemptionNotice | UpdatedNode]) -> None:
        """What concerns containers that are held."""
        with self._lock:
            held = [
                *((each.ask, each.container, each.node) for each in self._held.values()),
                *((each.ask, each.container, each.node) for each in self._adopted),
            ]
        for one in news:
            if isinstance(one, PreemptionNotice):
                marked = {*one.strict, *one.negotiable}
                if asks := tuple(ask for ask, container, _ in held if container in marked):
                    self._inbox(ContainersMarked(time.time(), asks))
            elif one.state == DECOMMISSIONING and one.timeout_s is not None:
                node = node_of_address(one.node)
                if any(place == node for _, _, place in held):
                    self._inbox(NodeLeaving(time.time(), node, one.timeout_s))

    def _meet(self, row: am_client.ContainerRow) -> None:
        """An active container that was not held when this poll began."""
        key = row.key
        with self._lock:
            if key in self._held:
                return
            is_released = key in self._released
        if is_released:
            self._kill(key)
            return
        if key in self._early_containers:
            return
        first_seen = self._strays.setdefault(key, time.monotonic())
        if time.monotonic() - first_seen > self._timing.stray_s:
            self._kill(key)

    def _grant(self, row: am_client.ContainerRow, held: _Held) -> None:
        held.granted_at = held.granted_at or time.monotonic()
        place = self._locate(row.http_address)
        if place is None:
            if time.monotonic() - held.granted_at < self._timing.locate_s:
                return
            place = (node_of_address(row.http_address), RackId(""))
        with self._lock:
            if row.key not in self._held:
                return
            held.is_granted = True
            held.container, held.node = ContainerId(row.container), place[0]
        node, rack = place
        container = ContainerId(row.container)
        self._inbox(
            ContainerGranted(time.time(), held.ask, container, node, rack, row.http_address)
        )

    def _end(self, keys: Iterable[am_client.ContainerKey]) -> None:
        gone = set(keys)
        rows = self._skein.containers(am_client.ENDED, {key.service for key in gone})
        told = {row.key: row for row in rows if row.key in gone}
        for key in sorted(gone):
            with self._lock:
                held = self._held.pop(key, None)
            if held is None:
                continue
            row = told.get(key) or am_client.ContainerRow(
                key, am_client.FAILED, exit_message="unknown to Skein"
            )
            self._report_end(held.ask, row, self._responses.completed(row.container))

    def _end_adopted(self) -> None:
        with self._lock:
            self._adopted.release_late()
            ended = self._adopted.ended()
        for ask, row, completed in ended:
            self._report_end(ask, row, completed)

    def _report_end(
        self, ask: AskId, row: am_client.ContainerRow, completed: CompletedContainer | None
    ) -> None:
        end, text = container_end(row, completed)
        finding = None
        if end is ContainerEnd.FAILED:
            finding = container_finding(text, SHIPPED_RULES)
        self._inbox(ContainerEnded(time.time(), ask, end, text, finding))

    def _fail(self, message: str) -> None:
        if not self._has_failed and not self._closed:
            self._has_failed = True
            self._inbox(BrokerFailed(time.time(), message))


def container_end(
    row: am_client.ContainerRow, completed: CompletedContainer | None = None
) -> tuple[ContainerEnd, str]:
    """From Skein's state and text to what happened; ``completed``: YARN's own words, if heard."""
    text = row.exit_message.strip()
    if completed is not None and completed.exit_status > 0:
        # Skein has the same sentence for all of them.
        text = f"exit status {completed.exit_status}: {completed.diagnostics}".strip()
    if row.state == am_client.SUCCEEDED:
        return ContainerEnd.EXITED, text
    if row.state == am_client.KILLED:
        # Our own releases are never reported, so somebody else used Skein's gRPC.
        return ContainerEnd.FAILED, f"killed through Skein, not by yarnam: {text}"
    if completed is not None and completed.exit_status == PREEMPTED_STATUS:
        return ContainerEnd.PREEMPTED, text
    if "preempted by scheduler" in text:
        return ContainerEnd.PREEMPTED, text
    if "on a *lost* node" in text or "expired since it was unused" in text:
        return ContainerEnd.LOST, text
    return ContainerEnd.FAILED, text


def diagnostics(verdict: Verdict) -> str:
    """What ``yarn application -status`` shows: exit code first, then what failed and what next."""
    code = ExitCode(verdict.exit_code)
    lines = [f"yarnam: {code.name} (exit code {code.value})", verdict.message]
    if verdict.hint:
        lines.append(verdict.hint)
    return printable("\n".join(lines), keep="\n\t", max_length=DIAGNOSTICS_LIMIT)
