"""Who may do what in a real ZooKeeper: credentials, refusals, and what they say."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.live_applications import FakeLiveApplications
from tests.fakes.ticket_queue import asking
from tests.unit.client.world import World
from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.adapters.zookeeper.ticket_queue import ZooKeeperTicketQueue
from yarnam.client.doctor.cluster_checks import Health, _zookeeper
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import Demand, Ticket
from yarnam.errors import Unavailable

pytestmark = [pytest.mark.zookeeper]

MINE = "digest:yarnam:s3cret"
WANTED = Ticket(0, "a", "a", "root.dl", (Demand(Resources(1, 1, 1), 1),), 0.0)


@pytest.fixture
def address(cluster_env: dict[str, str]) -> Iterator[str]:
    """Of a place that belongs to the holder of the credentials alone."""
    found = f"{cluster_env['YARNAM_ZOOKEEPER']}/yarnam-test-{uuid.uuid4().hex}"
    session = LazySession(found, MINE)
    zookeeper = session.connected()
    zookeeper.create(zookeeper.root)
    yield found
    zookeeper.kazoo.delete(zookeeper.root, recursive=True)
    session.close()


@pytest.mark.parametrize("credentials", ["", "digest:yarnam:wrong"])
def test_who_has_no_access_is_told_whom_to_ask(address: str, credentials: str) -> None:
    session = LazySession(address, credentials)
    queue = ZooKeeperTicketQueue(session.open(), "a", FakeLiveApplications())
    queue.open(lambda: None)
    session.connected()
    with pytest.raises(Unavailable, match="refuses") as caught:
        queue.take(WANTED)
    assert "yarnam docs zookeeper" in caught.value.hint
    assert "s3cret" not in str(caught.value)
    queue.close()


def test_with_credentials_everything_made_is_theirs_alone(address: str) -> None:
    session = LazySession(address, MINE)
    queue = ZooKeeperTicketQueue(session.open(), "a", FakeLiveApplications())
    queue.open(lambda: None)
    zookeeper = session.connected()
    assert queue.take(WANTED).number == 1
    assert queue.claim(asking(WANTED))
    for name in ("queue", "queue/tickets", "queue/claim"):
        acls, _ = zookeeper.kazoo.get_acls(zookeeper.path(name))
        assert [acl.id.scheme for acl in acls] == ["digest"], name
    queue.close()


def test_doctor_tries_what_jobs_do(address: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(f"{MINE}\n")
    site = World(tmp_path / "world").site
    assert "does not order waiting jobs" in _zookeeper(site).message
    refused = _zookeeper(replace(site, zookeeper=address))
    assert refused.health is Health.WARN
    assert "refuses" in refused.message
    environ = {**site.environ, "YARNAM_ZOOKEEPER_AUTH_FILE": str(key)}
    found = _zookeeper(replace(site, zookeeper=address, environ=environ))
    assert (found.health, found.part) == (Health.OK, "ZooKeeper")
    away = _zookeeper(replace(site, zookeeper="127.0.0.1:1/yarnam/x"))
    assert (away.health, "does not answer" in away.message) == (Health.WARN, True)
