"""The position of a waiting job, as its user sees it."""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.model.job_status import WaitQueueStatus
from yarnam.core.model.plans import NoFit
from yarnam.core.model.tickets import MustWait
from yarnam.core.queue_client.client_state import QueueClient
from yarnam.core.queue_client.cluster_poll import PlanOutcome


def wait_status(
    client: QueueClient, last: MustWait, refusal: PlanOutcome | None
) -> WaitQueueStatus:
    """``refusal``: the planner's answer, if it is known."""
    ticket, head, listed = client.ticket, last.head, client.admission.listed
    return WaitQueueStatus(
        ticket=ticket.number if ticket else 0,
        ahead=last.ahead,
        head=head.job if last.ahead else "",
        head_name=head.name if last.ahead else "",
        head_gpus=head.gpus if last.ahead else 0,
        reason=last.reason,
        missing=refusal.message if isinstance(refusal, NoFit) else "",
        start=client.admission.start,
        trouble=listed.trouble if listed else "",
    )


def is_same_position(before: WaitQueueStatus, after: WaitQueueStatus) -> bool:
    """Whether two positions differ in nothing that is worth a line in the log."""
    return replace(before, reason="", start=None) == replace(after, reason="", start=None)


def overdue_text(last: MustWait) -> str:
    return (
        "the gang has fitted for long on GPUs that the jobs ahead of it do not take (first of them "
        f"{last.head.name} ({last.head.job}): {last.reason}). If they should: "
        "yarnam docs zookeeper"
    )


def waiting_text(status: WaitQueueStatus) -> str:
    """One line for a person to read."""
    text = _waiting_text(status)
    return f"{text}; {status.trouble}" if status.trouble else text


def _waiting_text(status: WaitQueueStatus) -> str:
    if status.ahead:
        head = f"{status.head_name} ({status.head})" if status.head_name else status.head
        needs = f" needs {status.head_gpus} GPUs" if status.head_gpus else " is first"
        ahead = "1 job" if status.ahead == 1 else f"{status.ahead} jobs"
        return f"waiting behind {ahead} ({head}{needs}): {status.missing or status.reason}"
    # The planner says better what is missing, but it knows no queue and no ends.
    if status.missing and status.reason.startswith("first in the queue"):
        return f"waiting for free GPUs: {status.reason}: {status.missing}"
    return f"waiting for free GPUs: {status.missing or status.reason}"
