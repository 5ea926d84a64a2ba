"""Takes the queues, nodes and jobs of a site at one instant."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from yarnam.adapters.yarn.addresses import read_settings
from yarnam.adapters.yarn.allocation_xml import load_allocations
from yarnam.adapters.yarn.pending_applications import LIVING
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.client.queues.maintenance import Maintenance
from yarnam.client.site import Site
from yarnam.client.submit.waiting_jobs import read_wait_queue
from yarnam.core.admission import QueueSnapshot, admit
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import (
    AllocationSteps,
    Closures,
    ClusterSnapshot,
    QueueView,
    Scheduler,
    with_cordons,
)
from yarnam.core.model.tickets import AdmissionDecision, RunningGang, Ticket
from yarnam.core.queue_client.ticket_list import TicketList
from yarnam.core.queues.allocations import Allocations
from yarnam.core.queues.queue_state import QueueReport
from yarnam.core.queues.queues_now import QueueJob, QueuesNow, Stage
from yarnam.errors import UsageError, YarnamError
from yarnam.wire.protocol import APPLICATION_TAG

ALLOCATION_FILE = "yarn.scheduler.fair.allocation.file"
AM = Resources(1536, 1, 0)
"""What yarnam asks for an ApplicationMaster unless the spec says otherwise. The ResourceManager's
list does not tell the size of one that waits."""
MOST_JOBS = 10_000
"""Applications that are listed; the ResourceManager keeps as many by default."""


def queues_now(site: Site, node_label: str = "") -> QueuesNow:
    """The queues by the ResourceManager, the ticket queue and, where it can be read, the allocation
    file; of the nodes with this label (empty: without one). Raises Unavailable; UsageError: the
    scheduler has no such queues, or no node the label."""
    report = site.rm.queue_report(node_label)
    if report is None:
        raise UsageError(
            "the cluster runs neither the Fair Scheduler nor the Capacity Scheduler",
            hint="`yarnam nodes` and `yarnam plan` work with every scheduler.",
        )
    _check_label(report, node_label)
    applications = site.rm.applications(states=LIVING, most=MOST_JOBS)
    try:
        closures = Maintenance(site).closures()
    except YarnamError:
        closures = Closures()
    report = replace(report, nodes=with_cordons(report.nodes, closures))
    found = read_wait_queue(site)
    waiting = found if isinstance(found, TicketList) else TicketList()
    tickets = {ticket.job: ticket for ticket in waiting.tickets}
    gangs = {gang.job: gang for gang in waiting.running}
    is_fair = report.scheduler is Scheduler.FAIR
    configured = site_allocations(site) if is_fair else None
    queues = tuple(configured.root.walk()) if configured is not None else ()
    if not is_fair:
        own = tuple(one for one in report.nodes if one.label == node_label)
        report = replace(report, nodes=own)
    return QueuesNow(
        taken_at_s=time.time(),
        root=report.root,
        nodes=report.nodes,
        jobs=tuple(
            _job(app, tickets.get(app.application), gangs.get(app.application), report.steps)
            for app in applications
        ),
        weights={queue.name: queue.weight for queue in queues},
        am_shares={queue.name: queue.max_am_share for queue in queues}
        | {queue.name: queue.am_part for queue in report.root.walk() if queue.am_part is not None},
        preempts=report.preempts,
        scheduler=report.scheduler,
        closures=closures,
        admission=partial(_admission, report, waiting) if waiting.tickets else None,
    )


def _check_label(report: QueueReport, node_label: str) -> None:
    labels = sorted({node.label for node in report.nodes if node.label})
    if node_label and (report.scheduler is Scheduler.FAIR or node_label not in labels):
        raise UsageError(
            f"no node has the label '{node_label}'",
            hint=f"Labels: {', '.join(labels)}"
            if labels
            else "No node has a label; the Capacity Scheduler alone knows them.",
        )


def _admission(report: QueueReport, waiting: TicketList, ticket: Ticket) -> AdmissionDecision:
    """The decision that the job's ApplicationMaster would reach, if its gang fits."""
    now_s = time.time()
    queue = next(
        (one for one in report.leaves if one.name == ticket.queue), QueueView(ticket.queue)
    )
    snapshot = ClusterSnapshot(
        now_s, report.nodes, queue, queue.max_container, report.steps, report.preempts,
        report.leaves, scheduler=report.scheduler,
    )  # fmt: skip
    seen = QueueSnapshot(snapshot, waiting.tickets, waiting.running, now_s)
    return admit(ticket, seen, fits_now=True)


def allocation_file(site: Site) -> Path:
    """Where the site's configuration says that the allocation file is; YARN looks for a relative
    path beside its configuration."""
    settings = read_settings(site.conf_dir, "core-site.xml", "yarn-site.xml")
    return site.conf_dir / settings.get(ALLOCATION_FILE, "fair-scheduler.xml")


def site_allocations(site: Site) -> Allocations | None:
    """The allocation file, if this machine has it: it is the ResourceManager's."""
    try:
        return load_allocations(allocation_file(site))
    except YarnamError:
        return None


def _job(
    app: YarnApplication, ticket: Ticket | None, gang: RunningGang | None, steps: AllocationSteps
) -> QueueJob:
    is_gang = APPLICATION_TAG in app.tags
    # An ApplicationMaster that has started and not registered yet leaves the state as it is.
    if app.state != "RUNNING" and app.running_containers < 1:
        stage, since_s, gpus = Stage.WAITS_FOR_AM, app.started_at_s, None
    elif ticket is not None:
        stage, since_s, gpus = Stage.WAITS_FOR_GANG, ticket.taken_at_s, ticket.gpus
    elif is_gang and gang is None and app.running_containers <= 1:
        stage, since_s, gpus = Stage.WAITS_FOR_GANG, app.started_at_s, None
    else:
        since_s = (gang.since_s if gang is not None else None) or app.started_at_s
        stage, gpus = Stage.RUNNING, gang.gpus if gang is not None else None
    return QueueJob(
        application=app.application,
        name=app.name,
        user=app.user,
        queue=app.queue,
        stage=stage,
        since_s=since_s,
        submitted_at_s=app.started_at_s,
        is_gang=is_gang,
        demands=tuple(
            replace(demand, resources=steps.rounded(demand.resources))
            for demand in (ticket.demands if ticket is not None else ())
        ),
        gpus=gpus,
        am=steps.rounded(AM),
        ticket=ticket,
    )
