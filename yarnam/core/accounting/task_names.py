"""Which task each container of a job has been: a journal knows containers by their requests."""

from __future__ import annotations

from collections.abc import Sequence

from yarnam.core.accounting.ledger import Accounts, account_all
from yarnam.core.gang import Gang
from yarnam.core.model.events import Event
from yarnam.core.model.ids import AskId, distinct_names
from yarnam.core.model.job_spec import JobSpec


def task_names(job: JobSpec, events: Sequence[Event]) -> dict[AskId, str]:
    """``worker-0``, or ``worker-0 (attempt 1)`` where several containers have been that task. A
    container that has never been launched has no name."""
    names: dict[AskId, str] = {}

    def book(before: Gang, event: Event, after: Gang, accounts: Accounts) -> None:
        if after.members is not before.members:
            names.update((one.ask, str(one.task)) for one in after.everyone if one.task)

    account_all(job, events[0].at_s if events else 0.0, events, book)
    return distinct_names(names)
