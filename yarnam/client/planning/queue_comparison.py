"""Where a job would start first: its outlook in each queue of the cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from yarnam.client.planning.outlook import Outlook, outlook
from yarnam.client.submit.preflight import checked_on
from yarnam.core.admission.forecast import Forecast, UnknownStart
from yarnam.core.queue_client.ticket_list import TicketList
from yarnam.errors import YarnamError


@dataclass(frozen=True, slots=True)
class QueueOutlook:
    """One queue. ``never``: why the job can never run there; ``start`` is None then."""

    queue: str
    fits_now: bool = False
    start: Forecast | UnknownStart | None = None
    never: str = ""


def compare_queues(found: Outlook, waiting: TicketList | str) -> tuple[QueueOutlook, ...]:
    """The same job in every queue that the snapshot shows, the earliest likely start first, then
    the unknown ones. ``waiting``: see ``outlook``. Who may submit to a queue is not checked."""
    views = found.snapshot.queues or (found.snapshot.queue,)
    rows: list[QueueOutlook] = []
    for view in views:
        snapshot = replace(found.snapshot, queue=view, max_container=view.max_container)
        job = replace(found.job, queue=view.name)
        try:
            there = outlook(checked_on(snapshot, job, found.checked.data), waiting)
        except YarnamError as error:
            rows.append(QueueOutlook(view.name, never=error.message))
        else:
            rows.append(QueueOutlook(view.name, there.fits_now, there.start))
    return tuple(sorted(rows, key=_order))


def _order(row: QueueOutlook) -> tuple[float, float, str]:
    if isinstance(row.start, Forecast):
        return row.start.likely_s, row.start.latest_s, row.queue
    return inf, inf if row.never else 0.0, row.queue
