"""Takes the queues, nodes and jobs of a site at one instant."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from yarnam.adapters.yarn.addresses import read_settings
from yarnam.adapters.yarn.allocation_xml import load_allocations
from yarnam.adapters.yarn.pending_applications import LIVING
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.client.queues.maintenance import Maintenance
from yarnam.client.site import Site
from yarnam.client.submit.waiting_jobs import read_wait_queue
from yarnam.core.admission import QueueSnapshot, admit
from yarnam.core.admission.forecast import LEAST_WAIT_S, widening
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import (
    Closures,
    ClusterSnapshot,
    QueueView,
    Scheduler,
    with_cordons,
)
from yarnam.core.model.tickets import AdmissionDecision, RunningGang, Ticket
from yarnam.core.queue_client.ticket_list import TicketList
from yarnam.core.queues.allocations import Allocations
from yarnam.core.queues.overview.cluster_overview import ClusterInfo
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

ZOOKEEPER_WAIT_S = 1.2
"""For ZooKeeper, beside the requests to the ResourceManager: a page answers within two seconds, and
a healthy ensemble within milliseconds."""

T = TypeVar("T")


def queues_now(site: Site, node_label: str = "") -> QueuesNow:
    """The queues by the ResourceManager, the ticket queue and, where it can be read, the allocation
    file; of the nodes with this label (empty: without one). Raises Unavailable; UsageError: the
    scheduler has no such queues, or no node the label."""
    kept = _InZooKeeper(site)
    report = site.rm.queue_report(node_label)
    if report is None:
        raise UsageError(
            "the cluster runs neither the Fair Scheduler nor the Capacity Scheduler",
            hint="`yarnam nodes` and `yarnam plan` work with every scheduler.",
        )
    _check_label(report, node_label)
    applications = site.rm.applications(states=LIVING, most=MOST_JOBS)
    closures, found = kept.result()
    troubles = _troubles(site, closures, found)
    closures = closures if isinstance(closures, Closures) else Closures()
    report = replace(report, nodes=with_cordons(report.nodes, closures))
    waiting = found if isinstance(found, TicketList) else TicketList()
    tickets = {ticket.job: ticket for ticket in waiting.tickets}
    gangs = {gang.job: gang for gang in waiting.running}
    is_fair = report.scheduler is Scheduler.FAIR
    configured = site_allocations(site) if is_fair else None
    queues = tuple(configured.root.walk()) if configured is not None else ()
    all_nodes = report.nodes
    if not is_fair:
        own = tuple(one for one in report.nodes if one.label == node_label)
        report = replace(report, nodes=own)
    return QueuesNow(
        taken_at_s=time.time(),
        root=report.root,
        nodes=report.nodes,
        jobs=tuple(
            _job(app, tickets.get(app.application), gangs.get(app.application), report, waiting)
            for app in applications
        ),
        weights={queue.name: queue.weight for queue in queues},
        am_shares={queue.name: queue.max_am_share for queue in queues}
        | {queue.name: queue.am_part for queue in report.root.walk() if queue.am_part is not None},
        preempts=report.preempts,
        scheduler=report.scheduler,
        closures=closures,
        admission=partial(_admission, report, waiting) if waiting.tickets else None,
        all_nodes=all_nodes,
        troubles=troubles,
        knows_gangs=isinstance(found, TicketList) or not site.zookeeper,
    )


class _InZooKeeper:
    """Reads closures and the wait queue while the ResourceManager is asked."""

    def __init__(self, site: Site) -> None:
        self._deadline_s = time.monotonic() + ZOOKEEPER_WAIT_S
        pool = ThreadPoolExecutor(2, thread_name_prefix="zookeeper")
        self._closures = pool.submit(Maintenance(site).closures)
        self._waiting = pool.submit(read_wait_queue, site)
        pool.shutdown(wait=False)

    def result(self) -> tuple[Closures | str, TicketList | str]:
        """Each, or why it is missing."""
        return self._of(self._closures), self._of(self._waiting)

    def _of(self, future: Future[T]) -> T | str:
        try:
            return future.result(max(0.0, self._deadline_s - time.monotonic()))
        except FutureTimeout:
            return f"ZooKeeper did not answer within {ZOOKEEPER_WAIT_S:g} s"
        except YarnamError as error:
            return error.message


def _troubles(site: Site, closures: Closures | str, found: TicketList | str) -> tuple[str, ...]:
    """Nothing is missing of a site that has no ZooKeeper."""
    if not site.zookeeper:
        return ()
    troubles = []
    if isinstance(closures, str):
        troubles.append(f"cordons, drains and stopped queues are not known: {closures}")
    if isinstance(found, str):
        troubles.append(f"what waiting jobs need, and where gangs run, is not known: {found}")
    elif found.trouble:
        troubles.append(f"the wait queue is not confirmed: {found.trouble}")
    return tuple(troubles)


def _expected_by_s(ticket: Ticket, report: QueueReport, waiting: TicketList) -> float | None:
    if ticket.forecast_s is None:
        return None
    seen = _seen(ticket, report, waiting)
    return ticket.taken_at_s + max(LEAST_WAIT_S, widening(ticket, seen) * ticket.forecast_s)


def cluster_info(site: Site) -> ClusterInfo:
    """The ResourceManager's report on itself; its name is the id of the cluster where the site has
    one, else its address. Raises Unavailable."""
    info = site.rm.info()
    settings = read_settings(site.conf_dir, "yarn-site.xml")
    name = settings.get("yarn.resourcemanager.cluster-id", "").strip()
    started_ms = info.get("startedOn")
    return ClusterInfo(
        name or urlsplit(site.rm.url).netloc,
        str(info.get("haState") or info.get("state") or "unknown")[:40],
        str(info.get("resourceManagerVersion") or "")[:40],
        started_ms / 1000 if isinstance(started_ms, int) else None,
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
    return admit(ticket, _seen(ticket, report, waiting), fits_now=True)


def _seen(ticket: Ticket, report: QueueReport, waiting: TicketList) -> QueueSnapshot:
    now_s = time.time()
    queue = next(
        (one for one in report.leaves if one.name == ticket.queue), QueueView(ticket.queue)
    )
    snapshot = ClusterSnapshot(
        now_s, report.nodes, queue, queue.max_container, report.steps, report.preempts,
        report.leaves, scheduler=report.scheduler,
    )  # fmt: skip
    return QueueSnapshot(snapshot, waiting.tickets, waiting.running, now_s)


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
    app: YarnApplication,
    ticket: Ticket | None,
    gang: RunningGang | None,
    report: QueueReport,
    waiting: TicketList,
) -> QueueJob:
    steps = report.steps
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
        gang=gang,
        expected_by_s=_expected_by_s(ticket, report, waiting) if ticket is not None else None,
    )
