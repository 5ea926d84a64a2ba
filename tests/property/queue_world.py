"""A job in the wait queue among answers that are late, doubled, lost or refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from tests.fakes.cluster_view import cluster
from tests.unit.am.am_world import APPLICATION, record_of
from tests.unit.am.am_world import job as job_of
from yarnam.core.admission import Ask
from yarnam.core.model.actions import RequestPlan
from yarnam.core.model.job_status import Phase
from yarnam.core.model.plans import NoFit, PlacementPlan
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.model.tickets import Demand, HoldState, PolicyTicket, RunningGang, Ticket
from yarnam.core.placement.plan_request import plan_request
from yarnam.core.policies.chosen_policy import NOTHING_CHOSEN, QueuePolicy, active_policy
from yarnam.core.queue_client import ClientLimits, QueueClient, new_client, queued_job, step
from yarnam.core.queue_client import client_actions as ca
from yarnam.core.queue_client import client_events as ce
from yarnam.core.queue_client.admission_rules import claim_decision
from yarnam.core.queue_client.client_state import Stage
from yarnam.core.queue_client.cluster_poll import ClusterPoll, PlanOutcome
from yarnam.core.queue_client.gang_view import HOLDING_PHASES, GangView
from yarnam.core.queue_client.ticket_list import TicketList

Step = Callable[
    [QueueClient, ce.ClientEvent, ce.Moment], tuple[QueueClient, tuple[ca.ClientAction, ...]]
]

JOB = job_of(tasks=2, gpus=8)
RECORD = record_of(JOB)
REQUEST = RequestPlan(1, 0, ())
TIRESIAS = QueuePolicy("tiresias", (("limits", "640"),), by="ann", version=7)
OTHER = "application_1_0777"


ALONE = frozenset({Stage.POLLING_ALONE, Stage.CONFIRMING, Stage.POLLING_AGAIN})


class Violation(AssertionError):
    """A rule of the client does not hold."""


@dataclass
class Pending:
    """An action that has not been answered yet."""

    action: Any
    is_answered: bool = False


@lru_cache(maxsize=256)
def planned(snapshot: ClusterSnapshot, avoid: tuple[Any, ...], *, blind: bool) -> PlanOutcome:
    return plan_request(
        snapshot, JOB, RECORD.targets, REQUEST, also_excluded=avoid, blind=blind or None
    )


@cache
def snapshot_of(used: int, *, is_shared: bool = False) -> ClusterSnapshot:
    snapshot = cluster(used=used)
    return replace(snapshot, queues=(snapshot.queue,), is_shared=is_shared)


def poll_of(snapshot: ClusterSnapshot, now_s: float) -> ClusterPoll:
    def plan(avoid: tuple[Any, ...] = (), *, blind: bool = False) -> PlanOutcome:
        return planned(snapshot, avoid, blind=blind)

    outcome = plan()
    refusal = outcome if isinstance(outcome, NoFit) else None
    return ClusterPoll(snapshot, plan, refusal is None, refusal, asked_at_s=now_s, took_s=0.1)


class QueueWorld:
    """``play`` is the step, or a mutant of it."""

    def __init__(self, seed: int, play: Step = step) -> None:
        self.dice = random.Random(seed)
        self.play = play
        self.now_s = 1_700_000_000.0
        limits = ClientLimits()
        job = queued_job(JOB, RECORD.targets, APPLICATION, limits, has_queue=True)
        self.client = new_client(job)
        self.pending: dict[int, Pending] = {}
        self.seen: list[tuple[ce.ClientEvent, ce.Moment]] = []
        self.did: list[tuple[ca.ClientAction, ...]] = []
        self.answered: list[ce.ClientEvent] = []
        self.wake_at_s: float | None = None
        self.is_wanted = False
        self.needs_admission = True
        self.is_alone = False
        """Others have left GPUs idle for long."""
        self.is_ours = False
        """The newest claim holds."""
        self.polls: list[ClusterPoll] = []
        self.numbers = 0
        self.used = self.dice.choice((0, 0, 4, 8))
        self.is_shared = False
        self.others: TicketList = TicketList()
        self.chosen = NOTHING_CHOSEN
        self.is_away = False
        """The queue does not answer, nearly always."""
        self.phase = Phase.PENDING
        self.counts: dict[str, int] = {}

    # ---- the rules ---------------------------------------------------------------------------

    def send(self, event: ce.ClientEvent) -> None:
        moment = ce.Moment(self.now_s, self.dice.random(), self._policy_ticket())
        before = self.client
        self.client, actions = self.play(before, event, moment)
        of_write = getattr(event, "serial", 0) == before.record.writing
        if before.record.writing not in {0, self.client.record.writing} and not of_write:
            raise Violation("two writes of one record")
        is_checked = len(self.seen) % 8 == 0
        again = self.play(before, event, moment) if is_checked else (self.client, actions)
        if again != (self.client, actions):
            raise Violation("two steps of one event differ")
        self.seen.append((event, moment))
        self.did.append(actions)
        for action in actions:
            self._take(action)
        self._check(event)

    def _take(self, action: ca.ClientAction) -> None:
        self.counts[type(action).__name__] = self.counts.get(type(action).__name__, 0) + 1
        match action:
            case ca.AnswerPlan(poll=poll, outcome=outcome):
                if not self.is_wanted:
                    raise Violation("a plan that nobody wants")
                self.is_wanted = False
                if isinstance(outcome, PlacementPlan):
                    if poll.snapshot.is_shared:
                        raise Violation("the job acts by another job's snapshot")
                    if self.client.ticket is not None and not self._may_ask_alone():
                        ticket = self.client.ticket
                        if not self.is_ours or not ticket.is_acquiring:
                            raise Violation("the job asks without a claim")
            case ca.WakeAt(at_s=at_s):
                self.wake_at_s = at_s
            case ca.Send() | ca.Remember():
                pass
            case _:
                if action.serial in self.pending:
                    raise Violation("two actions with one serial")
                self.pending[action.serial] = Pending(action)

    def _may_ask_alone(self) -> bool:
        """Without tickets: the request needs none, they are away, or others leave GPUs idle for
        long."""
        admission = self.client.admission
        is_queued = admission.is_queued and admission.lost_at_s is None
        return not self.needs_admission or not is_queued or self.is_alone

    def _check(self, event: ce.ClientEvent) -> None:
        client = self.client
        admission, record = client.admission, client.record
        self.is_alone = self.is_alone or admission.stage in ALONE
        if self.is_wanted and admission.stage is Stage.IDLE:
            raise Violation(f"nothing answers the request after {type(event).__name__}")
        if admission.stage is not Stage.IDLE:
            waits = {serial for serial, one in self.pending.items() if not one.is_answered}
            is_connecting = admission.is_connecting and client.is_opening
            if not is_connecting and not waits & {admission.awaits, admission.entering}:
                raise Violation(f"{admission.stage.value} waits for nothing")
        is_due = record.shown is not None and record.shown != record.written
        if is_due and client.is_connected and not record.writing and self.wake_at_s is None:
            raise Violation("what is to be shown is never written")

    # ---- what happens ------------------------------------------------------------------------

    def walk(self, steps: int) -> None:
        self.send(ce.Opened())
        for _ in range(steps):
            self.now_s += self.dice.choice((0.0, 0.1, 1.0, 5.0, 40.0))
            self.dice.choice(self._moves())()

    def _moves(self) -> list[Callable[[], None]]:
        moves: list[Callable[[], None]] = [self._change, self._double, self._look]
        moves += [self._move] * (self.dice.random() < 0.02)
        open_ones = [serial for serial, one in self.pending.items() if not one.is_answered]
        moves += [self._answer] * (9 * bool(open_ones))
        if self.client.is_opening:
            moves += [self._connect] * 3
        if self.wake_at_s is not None:
            moves += [self._wake] * 2
        if not self.is_wanted:
            moves += [self._want] * 3 + [self._gang] * 2
        elif self.dice.random() < 0.05:
            moves += [self._want, self._withdraw]
        return moves

    def _connect(self) -> None:
        if self.dice.random() < 0.05:
            self.send(ce.OpenFailed("no such host"))
        else:
            self.send(ce.Connected("" if self.dice.random() < 0.7 else "connecting"))

    def _want(self) -> None:
        self.is_wanted, self.is_ours, self.phase = False, False, Phase.PENDING
        self.needs_admission = self.dice.random() < 0.9
        self.is_alone = False
        self.send(ce.PlanWithdrawn())
        self.send(ce.GangChanged(GangView(Phase.PENDING, 1)))
        self.is_wanted = True
        self.send(ce.PlanWanted(self.needs_admission))

    def _withdraw(self) -> None:
        self.is_wanted = False
        self.send(ce.PlanWithdrawn())

    def _move(self) -> None:
        self.send(ce.Moved(self.dice.choice(("root.dl", "root.other"))))

    def _wake(self) -> None:
        assert self.wake_at_s is not None
        self.now_s, self.wake_at_s = max(self.now_s, self.wake_at_s), None
        self.send(ce.Woken())

    def _look(self) -> None:
        view = self.client.gang
        if view is not None:
            self.send(ce.PolicyLookDue(view))

    def _gang(self) -> None:
        """The gang goes its way. It is not PENDING while a plan is wanted."""
        if self.is_wanted:
            return
        phases = (Phase.ACQUIRING, Phase.RUNNING, Phase.BACKING_OFF, Phase.SUSPENDED)
        self.phase = self.dice.choice(phases)
        count = self.dice.randint(0, 2)
        missing = (Demand(Resources(1024, 1, 8), count),) if count else ()
        self.send(
            ce.GangChanged(
                GangView(
                    self.phase, 1, is_yielding=self.phase is Phase.SUSPENDED,
                    missing=missing if self.phase is Phase.ACQUIRING else (),
                    gpus=16 if self.phase in HOLDING_PHASES else 0, since_s=self.now_s,
                )
            )
        )  # fmt: skip

    def _change(self) -> None:
        """Something else in the world."""
        match self.dice.randrange(8):
            case 6:
                # Room in another job's snapshot, and nobody to claim it from.
                self.used, self.is_shared, self.is_away = 0, True, True
            case 7:
                self.used, self.is_shared, self.is_away = 8, True, False
                self.others = self._some_others()
            case 5:
                self.is_away = self.dice.random() < 0.3
            case 0:
                self.used = self.dice.choice((0, 4, 8))
            case 1:
                self.is_shared = self.dice.random() < 0.8
            case 2:
                self.others = self._some_others()
            case 3:
                self.chosen = self.dice.choice((NOTHING_CHOSEN, TIRESIAS))
            case _:
                trouble = "ZooKeeper is away" if self.dice.random() < 0.2 else ""
                if self.client.is_connected:
                    self.send(ce.QueueChanged(trouble))

    def _some_others(self) -> TicketList:
        tickets, running = [], []
        for number in range(self.dice.randint(0, 2)):
            demand = Demand(Resources(1024, 1, 8), self.dice.choice((1, 4)))
            name = f"{OTHER}{number}"
            since_s = self.now_s - self.dice.choice((0.0, 9.0, 9000.0))
            tickets.append(
                Ticket(number, name, "other", "root.dl", (demand,), since_s, seen_at_s=self.now_s)
            )
        if self.dice.random() < 0.5:
            running.append(RunningGang(OTHER, "root.dl", 8, None, (), self.now_s))
        return TicketList(tuple(tickets), tuple(running))

    def _policy_ticket(self) -> PolicyTicket:
        state = HoldState.RUNNING if self.phase is Phase.RUNNING else HoldState.WAITING
        return PolicyTicket(
            APPLICATION, 0, 1_700_000_000.0, 16, "root.dl", state, since_s=self.now_s,
            can_suspend=True,
        )  # fmt: skip

    # ---- answers -----------------------------------------------------------------------------

    def _answer(self) -> None:
        open_ones = [one for one in self.pending.values() if not one.is_answered]
        one = self.dice.choice(open_ones)
        one.is_answered = True
        event = self._answer_to(one.action)
        self.answered.append(event)
        self.send(event)

    def _double(self) -> None:
        """An answer comes once more, or much too late."""
        if self.answered:
            event = self.dice.choice(self.answered)
            before = self.client
            self.send(event)
            after = self.client
            if replace(after, trouble="") != replace(before, trouble="") or self.did[-1]:
                raise Violation(f"a doubled {type(event).__name__} changes something")

    def _answer_to(self, action: Any) -> ce.ClientEvent:
        serial: int = action.serial
        of_queue = ca.WriteTicket | ca.WriteRunning | ca.ReadTickets | ca.ReadPolicy | ca.ClaimTurn
        if isinstance(action, of_queue) and self.dice.random() < (0.9 if self.is_away else 0.05):
            return ce.QueueFailed(serial, "ZooKeeper does not answer")
        listed = replace(self.others, policy=self.chosen)
        match action:
            case ca.WriteTicket(ticket=ticket, is_taken=is_taken):
                if is_taken:
                    return ce.TicketWritten(serial)
                self.numbers += not ticket.number
                return ce.TicketWritten(
                    serial, replace(ticket, number=ticket.number or self.numbers)
                )
            case ca.WriteRunning():
                return ce.TicketWritten(serial)
            case ca.ReadTickets():
                return ce.TicketsRead(serial, listed)
            case ca.ReadPolicy():
                return ce.PolicyRead(serial, self.chosen, active_policy(self.chosen))
            case ca.PollCluster(max_age_s=max_age_s):
                is_shared = self.is_shared and bool(max_age_s)
                snapshot = snapshot_of(self.used, is_shared=is_shared)
                return ce.ClusterPolled(serial, poll_of(snapshot, self.now_s))
            case ca.ReadSnapshot():
                snapshot = snapshot_of(self.used)
                shown = None if self.dice.random() < 0.1 else snapshot
                return ce.SnapshotRead(serial, shown)
            case ca.ClaimTurn(poll=poll):
                moment = ce.Moment(self.now_s, 0.5, self._policy_ticket())
                decision, row = claim_decision(self.client, poll, listed, moment)
                is_ours = isinstance(decision, Ask) and self.dice.random() < 0.8
                if serial == self.client.admission.awaits:
                    self.is_ours = is_ours
                return ce.ClaimEnded(serial, is_ours, decision, row, listed)
            case ca.Foresee():
                return ce.ForecastMade(serial, None, self.dice.choice((None, 60.0)))
            case _:
                return ce.PauseOver(serial)
