"""Looks at what the placements of now have made of the queues' quotas of whole nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from yarnam.client.site import Site
from yarnam.client.submit.waiting_jobs import read_wait_queue
from yarnam.core.policies.cells import Cells, cells, quotas_of, usual_gpus
from yarnam.core.queue_client.ticket_list import TicketList
from yarnam.errors import UsageError


@dataclass(frozen=True, slots=True)
class CellsNow:
    cells: Cells
    trouble: str = ""
    """Why it is not known whose the GPUs in use are; empty means it is."""


def cells_now(site: Site, given: Mapping[str, int], queue: str = "") -> CellsNow:
    """``given``: whole nodes of queues, in place of what YARN guarantees them; ``queue``: of this
    one alone, beside the needs of all. Raises Unavailable; UsageError: there is no such queue, no
    node with GPUs, or no quota of a whole node."""
    report = site.rm.queue_report()
    if report is None:
        raise UsageError("the cluster runs neither the Fair Scheduler nor the Capacity Scheduler")
    nodes = [node for node in report.nodes if not node.label]
    node_gpus = usual_gpus(nodes)
    if not node_gpus:
        raise UsageError("no node with GPUs runs")
    minima = {one.name: one.minimum for one in report.root.walk() if one.is_leaf}
    for name in filter(None, (*given, queue)):
        if name not in minima:
            raise UsageError(
                f"there is no leaf queue {name[:60]!a}",
                hint=f"There are: {', '.join(sorted(minima))}",
            )
    quotas = quotas_of(minima, node_gpus) | dict(given)
    quotas = {name: quota for name, quota in quotas.items() if quota}
    if not quotas:
        raise UsageError(
            f"no queue is guaranteed a whole node of {node_gpus} GPUs",
            hint="Give its minResources (or its capacity) as many, or try: --quota QUEUE=NODES",
        )
    listed = read_wait_queue(site)
    trouble = listed.trouble if isinstance(listed, TicketList) else listed
    running = listed.running if isinstance(listed, TicketList) else ()
    return CellsNow(cells(nodes, running, quotas, only=queue), trouble)
