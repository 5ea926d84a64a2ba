"""Reads which jobs wait for GPUs and which have them, without joining the queue."""

from __future__ import annotations

import logging
import time

from yarnam._light_imports import on_first_use
from yarnam.adapters.yarn.addresses import zookeeper_credentials
from yarnam.adapters.yarn.application_list import ApplicationList
from yarnam.client.site import Site
from yarnam.core.model.snapshot import Closures, NodeStrike
from yarnam.core.queue_client.ticket_list import TicketList
from yarnam.errors import YarnamError

with on_first_use():
    from yarnam.adapters.zookeeper import (
        closed_places,
        lazy_session,
        node_hints,
        session,
        ticket_queue,
    )

log = logging.getLogger("yarnam.client")

QUEUE_READ_LIMIT_S = 1.5
"""The read continues beside the staging, which takes about a second; no longer than that."""


def is_anybody_waiting(site: Site) -> bool:
    """False if there is no ticket queue. True also when the queue does not answer in time: a job
    that cannot know lets others go first."""
    if not site.zookeeper:
        return False
    found = read_wait_queue(site)
    return not isinstance(found, TicketList) or bool(found.tickets)


def must_wait(site: Site) -> bool:
    """Whether a job may not request containers before its ApplicationMaster has looked: another one
    waits, or an administrator keeps something closed."""
    if is_anybody_waiting(site):
        return True
    try:
        return bool(read_closures(site))
    except YarnamError:
        return True


def read_closures(site: Site) -> Closures:
    """What administrators keep closed; nothing without a ZooKeeper, or where it cannot be reached
    from here. Raises Unavailable."""
    if not site.zookeeper or not site.can_reach_zookeeper:
        return Closures()
    opened = lazy_session.LazySession(site.zookeeper, zookeeper_credentials(site.environ))
    try:
        return closed_places.ClosedPlaces(opened.connected()).all()
    finally:
        opened.close()


def read_strikes(site: Site) -> tuple[NodeStrike, ...]:
    """What jobs have held against nodes in the last half hour; nothing without a ZooKeeper,
    or where it cannot be reached from here. Raises Unavailable."""
    if not site.zookeeper or not site.can_reach_zookeeper:
        return ()
    opened = lazy_session.LazySession(site.zookeeper, zookeeper_credentials(site.environ))
    try:
        return node_hints.recent_strikes(opened.connected(), time.time())
    finally:
        opened.close()


def read_wait_queue(site: Site) -> TicketList | str:
    """The jobs that wait and those that run, by their own reports; else the reason why they are
    unknown."""
    if not site.zookeeper:
        return "without a ZooKeeper the end of other jobs is unknown"
    if not site.can_reach_zookeeper:
        return "ZooKeeper, where jobs wait in order, cannot be reached through the gateway"

    zookeeper = session.ZooKeeper(site.zookeeper, zookeeper_credentials(site.environ))
    queue = ticket_queue.ZooKeeperTicketQueue(zookeeper, "", ApplicationList(site.rm))
    try:
        queue.open(lambda: None)
        deadline_s = time.monotonic() + QUEUE_READ_LIMIT_S
        while not zookeeper.is_connected:
            if time.monotonic() > deadline_s:
                return (
                    f"ZooKeeper at {zookeeper.hosts} did not answer within {QUEUE_READ_LIMIT_S} s"
                )
            time.sleep(0.01)
        return queue.others()
    except YarnamError as error:
        log.debug("cannot read the ticket queue: %s", error)
        return error.message
    finally:
        queue.close()
