"""Who waits for GPUs and who has them: a look at the ticket office without standing in line."""

from __future__ import annotations

import logging
import time

from yarnam.adapters.hadoop_site import zookeeper_credentials
from yarnam.client.site import Site
from yarnam.errors import YarnamError
from yarnam.ports.tickets import TicketList

log = logging.getLogger("yarnam.client")

LOOK_LIMIT_S = 1.5
"""The look goes on beside the staging, which takes about a second; no longer than that."""


def is_anybody_waiting(site: Site) -> bool:
    """False where jobs take no turns. True also when the office does not answer in time: who cannot
    know lets others go first."""
    if not site.zookeeper:
        return False
    found = line_at(site)
    return not isinstance(found, TicketList) or bool(found.tickets)


def line_at(site: Site) -> TicketList | str:
    """The jobs that wait and those that run, as they tell it; else why that is not known."""
    if not site.zookeeper:
        return "without a ZooKeeper jobs do not tell when they end"
    from yarnam.adapters.zookeeper import ZooKeeper
    from yarnam.adapters.zookeeper_tickets import ZooKeeperTickets

    zookeeper = ZooKeeper(site.zookeeper, zookeeper_credentials(site.environ))
    office = ZooKeeperTickets(zookeeper, "")
    try:
        office.open(lambda: None)
        deadline_s = time.monotonic() + LOOK_LIMIT_S
        while not zookeeper.is_connected:
            if time.monotonic() > deadline_s:
                return f"ZooKeeper at {zookeeper.hosts} did not answer within {LOOK_LIMIT_S} s"
            time.sleep(0.01)
        return office.others()
    except YarnamError as error:
        log.debug("the ticket office does not tell who waits: %s", error)
        return error.message
    finally:
        office.close()
