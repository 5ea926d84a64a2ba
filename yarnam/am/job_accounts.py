"""The accounts of one job, kept by its ApplicationMaster: every step is booked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isfinite

from yarnam.am.status_report import AmFacts
from yarnam.core.accounting.attained_service import (
    JobFacts,
    Service,
    policy_ticket,
    served,
)
from yarnam.core.accounting.history_record import (
    HistoryRecord,
    RecordFacts,
    history_record,
    thinned,
)
from yarnam.core.accounting.ledger import (
    Accounts,
    account,
    account_all,
    ledger,
    open_accounts,
)
from yarnam.core.accounting.training_reports import is_due, lead_mirror
from yarnam.core.gang import Gang, policy_for
from yarnam.core.model.events import CheckpointMirrored, Event, TrainingReported
from yarnam.core.model.job_status import ExcludedFiles, Holding, Ledger, Phase
from yarnam.core.model.metrics import (
    COMPUTE_S,
    RESUMED_STEP,
    SAVED_STEP,
    SAVING_S,
    STEP_S,
    AgentMetrics,
)
from yarnam.core.model.outcomes import Verdict
from yarnam.core.model.tickets import PolicyTicket
from yarnam.wire.records import JobRecord, spec_digest

MAX_STEP = 1 << 62
"""A metric is a float of the program's own: a step beyond this is none."""

MAX_STEP_S = 1e7
"""A step that takes longer than four months is none."""


class JobAccounts:
    """Not thread-safe."""

    def __init__(self, record: JobRecord) -> None:
        self._record = record
        self._accounts = open_accounts(record.submitted_at_s)
        self._size = policy_for(record.job).size
        self.service = Service()
        self._reported: TrainingReported | None = None
        self._kept: CheckpointMirrored | None = None

    def moved(self, record: JobRecord) -> None:
        """Takes the job in another queue, to which all of its history counts."""
        self._record = record

    def replay(self, events: Iterable[Event]) -> Gang:
        """The gang after the events of the earlier AM attempts, which are booked."""
        gang, self._accounts = account_all(
            self._record.job, self._record.submitted_at_s, events, self._serve
        )
        return gang

    def take(self, before: Gang, event: Event, after: Gang) -> None:
        """Book one step."""
        self._accounts = account(self._accounts, before, event, after)
        self._serve(before, event, after, self._accounts)

    def _serve(self, before: Gang, event: Event, after: Gang, accounts: Accounts) -> None:
        self.service = served(self.service, before, event, after, accounts)

    def policy_ticket(self, gang: Gang, facts: JobFacts, now_s: float) -> PolicyTicket:
        """The job's report to the policy of its queue."""
        return policy_ticket(
            self._record.job, gang, self._size, self.service, self._accounts, facts, now_s
        )

    def reports(
        self, gang: Gang, metrics: Sequence[AgentMetrics], now_s: float, *, at_once: bool
    ) -> tuple[Event, ...]:
        """The reports of the training that the journal needs, each once."""
        if gang.phase not in {Phase.RUNNING, Phase.STOPPING} or gang.is_pre_run:
            return ()
        found = (
            self._trained(gang, metrics, now_s, at_once=at_once),
            self._mirrored(gang, metrics, now_s),
        )
        return tuple(event for event in found if event is not None)

    def _mirrored(
        self, gang: Gang, metrics: Sequence[AgentMetrics], now_s: float
    ) -> CheckpointMirrored | None:
        newest = lead_mirror(metrics, gang.attempt)
        if newest is None or not newest.number:
            return None
        new = CheckpointMirrored(
            now_s, gang.attempt, newest.number, newest.files, newest.size, newest.saved_at_s
        )
        if self._kept is not None and replace(new, at_s=self._kept.at_s) == self._kept:
            return None
        self._kept = new
        return new

    def _trained(
        self, gang: Gang, metrics: Sequence[AgentMetrics], now_s: float, *, at_once: bool
    ) -> TrainingReported | None:
        """By the reports of rank 0, or of the lowest rank that reports steps."""
        mine = [
            metric
            for metric in metrics
            if metric.attempt == gang.attempt and metric.step is not None
        ]
        if not mine:
            return None
        lead = min(mine, key=lambda metric: metric.rank)
        values = dict(lead.values)
        saving_s = values.get(SAVING_S, 0.0)
        new = TrainingReported(
            at_s=now_s,
            attempt=gang.attempt,
            step=lead.step or 0,
            resumed_step=_step(values.get(RESUMED_STEP)),
            saved_step=_step(values.get(SAVED_STEP)),
            saving_s=max(0.0, saving_s) if isfinite(saving_s) else 0.0,
            step_s=_seconds(values.get(STEP_S)),
            compute_s=_seconds(values.get(COMPUTE_S)),
            total_steps=_step(lead.total_steps),
        )
        if not is_due(self._reported, new, at_once=at_once):
            return None
        self._reported = new
        return new

    def ledger(self, gang: Gang, now_s: float) -> Ledger:
        return ledger(self._accounts, gang, now_s)

    @property
    def holdings(self) -> tuple[Holding, ...]:
        return thinned(self._accounts.holdings)

    def history_record(
        self, gang: Gang, verdict: Verdict, facts: AmFacts, excluded: Sequence[ExcludedFiles]
    ) -> HistoryRecord:
        """What stays of the job, which has ended with this verdict."""
        known = RecordFacts(
            key=self._record.key,
            application=facts.application,
            submitted_at_s=self._record.submitted_at_s,
            written_by="am",
            am_attempts=facts.am_attempt,
            spec_digest=spec_digest(self._record.job),
            yarnam_version=self._record.yarnam_version,
            excluded_files=excluded,
        )
        return history_record(self._record.job, gang, self._accounts, verdict, known)


def _seconds(value: float | None) -> float | None:
    """A metric is a float of the program's own."""
    return float(value) if value is not None and 0.0 < value < MAX_STEP_S else None


def _step(value: float | None) -> int | None:
    return int(value) if value is not None and abs(value) < MAX_STEP else None
