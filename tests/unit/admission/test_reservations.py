"""What a job that asks already takes, as its ticket says."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster_view import cluster
from yarnam.core.admission.reservations import ReservationLedger
from yarnam.core.model.ids import RackId
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import Demand, Ticket

NODES = 200


class CountedRack(str):
    """A rack whose comparisons are counted."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedRack.comparisons += 1
        return str.__eq__(self, other) is True

    __hash__ = str.__hash__


def test_a_ticket_of_thousands_of_racks_costs_no_more_than_their_number() -> None:
    """Of a stranger: every ApplicationMaster that waits plans with it, again and again."""
    snapshot = cluster(nodes=NODES)
    racks = tuple(RackId(CountedRack(f"/r{number}")) for number in range(5000))
    here = snapshot.nodes[0].rack
    asked = Demand(Resources(1024, 1, 1), 4, racks=(*racks, here))
    ticket = Ticket(1, "application_1_7", "train", "root.dl", (asked,), 1.0, is_acquiring=True)
    ledger = ReservationLedger(snapshot)
    ledger.reserve_what_fits(ticket)
    assert ledger.touched
    assert CountedRack.comparisons < 10 * NODES
    alone = ReservationLedger(snapshot)
    alone.reserve_what_fits(replace(ticket, demands=(replace(asked, racks=(here,)),)))
    assert alone.left == ledger.left
