"""Who may do what in a real ZooKeeper: credentials, refusals, and what they say."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.client.world import World
from yarnam.adapters.zookeeper_gate import Gate
from yarnam.adapters.zookeeper_tickets import ZooKeeperTickets
from yarnam.client.doctor import Health, _zookeeper
from yarnam.errors import Unavailable
from yarnam.model.resources import Resources
from yarnam.model.tickets import Demand, Ticket

pytestmark = [pytest.mark.zookeeper]

MINE = "digest:yarnam:s3cret"
WANTED = Ticket(0, "a", "a", "root.dl", (Demand(Resources(1, 1, 1), 1),), 0.0)


@pytest.fixture
def address(cluster_env: dict[str, str]) -> Iterator[str]:
    """Of a place that belongs to the holder of the credentials alone."""
    found = f"{cluster_env['YARNAM_ZOOKEEPER']}/yarnam-test-{uuid.uuid4().hex}"
    gate = Gate(found, MINE)
    zookeeper = gate.enter()
    zookeeper.create(zookeeper.root)
    yield found
    zookeeper.kazoo.delete(zookeeper.root, recursive=True)
    gate.close()


@pytest.mark.parametrize("credentials", ["", "digest:yarnam:wrong"])
def test_who_has_no_access_is_told_whom_to_ask(address: str, credentials: str) -> None:
    gate = Gate(address, credentials)
    office = ZooKeeperTickets(gate.open(), "a")
    office.open(lambda: None)
    gate.enter()
    with pytest.raises(Unavailable, match="refuses") as caught:
        office.take(WANTED)
    assert "docs/how-to/zookeeper.md" in caught.value.hint
    assert "s3cret" not in str(caught.value)
    office.close()


def test_with_credentials_everything_made_is_theirs_alone(address: str) -> None:
    gate = Gate(address, MINE)
    office = ZooKeeperTickets(gate.open(), "a")
    office.open(lambda: None)
    zookeeper = gate.enter()
    assert office.take(WANTED).number == 1
    assert office.claim(WANTED, lambda others: True)
    for name in ("office", "office/tickets", "office/turn"):
        acls, _ = zookeeper.kazoo.get_acls(zookeeper.path(name))
        assert [acl.id.scheme for acl in acls] == ["digest"], name
    office.close()


def test_doctor_tries_what_jobs_do(address: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(f"{MINE}\n")
    site = World(tmp_path / "world").site
    assert "take no turns" in _zookeeper(site).message
    refused = _zookeeper(replace(site, zookeeper=address))
    assert refused.health is Health.WARN
    assert "refuses" in refused.message
    environ = {**site.environ, "YARNAM_ZOOKEEPER_AUTH_FILE": str(key)}
    found = _zookeeper(replace(site, zookeeper=address, environ=environ))
    assert (found.health, found.part) == (Health.OK, "ZooKeeper")
    away = _zookeeper(replace(site, zookeeper="127.0.0.1:1/yarnam/x"))
    assert (away.health, "does not answer" in away.message) == (Health.WARN, True)
