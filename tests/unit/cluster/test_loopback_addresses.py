"""Slots and ports: clusters side by side never meet."""

from __future__ import annotations

import itertools
import socket

import pytest

from yarnam.cluster.daemons.loopback_addresses import (
    MASTER_PORTS,
    NODE_PORTS,
    choose_ports,
    claim_slot,
    listening_slots,
)
from yarnam.errors import Unavailable

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0100037F:1F98 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2
   2: 0101057F:1F98 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 3
   3: 0107000A:1F98 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4
"""


def test_only_listeners_on_loopback_make_a_slot_busy() -> None:
    # 127.0.0.1 and 127.3.0.1 listen; 127.5.1.1 is only connected; 10.0.7.1 is no loopback.
    assert listening_slots([TABLE]) == {0, 3}


def test_the_first_slot_that_nobody_uses_is_claimed() -> None:
    def busy() -> list[str]:
        return [TABLE]

    taken = set(range(1, 240)) - {3}
    with claim_slot(taken, busy) as first:
        assert first == 240
        with claim_slot(taken, busy) as second:
            assert second == 241
    with claim_slot(taken, busy) as again:
        assert again == 240


def test_a_slot_that_became_busy_while_it_was_claimed_is_passed_over() -> None:
    late = TABLE.replace("0100037F", "0100F57F")  # somebody listens on 127.245.0.1 by now
    answers = itertools.chain([[TABLE]], itertools.repeat([late]))
    with claim_slot(set(range(1, 245)), lambda: next(answers)) as slot:
        assert slot == 246


def test_without_a_free_slot_there_is_no_cluster() -> None:
    with pytest.raises(Unavailable, match="in use"), claim_slot(set(range(1, 255)), lambda: [""]):
        pass


def test_well_known_ports_are_taken_where_they_are_free() -> None:
    assert choose_ports(MASTER_PORTS, ["127.253.0.1"]) == MASTER_PORTS


def test_a_port_that_one_node_cannot_have_is_replaced_on_all() -> None:
    with socket.socket() as other:
        other.bind(("127.253.1.2", NODE_PORTS["nm"]))
        other.listen()
        draws = iter([22000, 22001])
        chosen = choose_ports(
            {"nm": NODE_PORTS["nm"], "nm_web": NODE_PORTS["nm_web"]},
            ["127.253.1.1", "127.253.1.2"],
            lambda _: next(draws),
        )
    assert chosen == {"nm": 22000, "nm_web": NODE_PORTS["nm_web"]}


def test_no_two_names_get_the_same_port() -> None:
    draws = iter([22000, 22000, 22000, 22001])
    with socket.socket() as other:
        # A listener on all addresses takes the well-known port from every cluster.
        other.bind(("", 0))
        other.listen()
        taken = other.getsockname()[1]
        chosen = choose_ports({"a": taken, "b": taken}, ["127.253.0.1"], lambda _: next(draws))
    assert chosen == {"a": 22000, "b": 22001}


def test_chosen_ports_are_free_again_for_the_daemons() -> None:
    chosen = choose_ports({"a": 22010}, ["127.253.0.1"])
    with socket.socket() as daemon:
        daemon.bind(("127.253.0.1", chosen["a"]))
        daemon.listen()


def test_all_well_known_ports_lie_below_the_ephemeral_range() -> None:
    assert max([*MASTER_PORTS.values(), *NODE_PORTS.values()]) < 32768
