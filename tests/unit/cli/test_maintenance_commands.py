"""``yarnam nodes cordon``, ``drain`` and ``queues stop`` over a client on fakes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client.world import World
from yarnam.cli.shell import Shell, run
from yarnam.client.queues import maintenance
from yarnam.client.site import Site
from yarnam.client.submit import waiting_jobs
from yarnam.core.model.ids import NodeId
from yarnam.core.model.snapshot import Closure, Closures
from yarnam.errors import ExitCode, Unavailable


class Places:
    """What ``closed_places.ClosedPlaces`` keeps."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Closure] = {}
        self.admin = ""
        self.failure: Exception | None = None

    def all(self) -> Closures:
        if self.failure is not None:
            raise self.failure
        nodes = {NodeId(name): one for (kind, name), one in self.kept.items() if kind == "node"}
        queues = {name: one for (kind, name), one in self.kept.items() if kind == "queue"}
        return Closures(nodes, queues)

    def of(self, kind: str, name: str) -> Closure | None:
        return self.kept.get((kind, name))

    def close(self, kind: str, name: str, closure: Closure, *, admin: str = "") -> None:
        self.admin = admin
        self.kept[kind, name] = closure

    def open(self, kind: str, name: str, *, admin: str = "") -> None:
        self.kept.pop((kind, name), None)

    def is_protected(self) -> bool:
        return bool(self.admin)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.site.zookeeper = "zk1:2181/yarnam"
    return made


@pytest.fixture
def kept(world: World, monkeypatch: pytest.MonkeyPatch) -> Places:
    found = Places()

    @contextmanager
    def opened(site: Site) -> Iterator[Any]:
        yield found

    monkeypatch.setattr("yarnam.client.queues.maintenance._opened", opened)
    for module in (waiting_jobs, maintenance):
        monkeypatch.setattr(module, "read_closures", lambda site: found.all())
    return found


def yarnam(world: World, *arguments: str) -> int:
    return run(arguments, Shell(lambda **_: world.client))


def test_a_node_is_cordoned_shown_and_opened(
    world: World, kept: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    assert yarnam(world, "nodes", "cordon", "n1", "--reason", "disk errors") == 0
    heard = capsys.readouterr()
    assert heard.out == "n1 is cordoned by me: disk errors\n"
    assert "may change this" in heard.err, "nothing protects it"
    assert yarnam(world, "nodes") == 0
    out = capsys.readouterr().out
    (row,) = [line for line in out.splitlines() if line.startswith("n1 ")]
    assert "cordoned by me: disk errors" in row
    assert "0 of 8" in row, "nothing is free there for a gang"
    assert "24 of 24 GPUs free" in out
    assert "8 GPUs are on nodes that do not run or are closed: 1 cordoned" in out
    assert yarnam(world, "nodes", "--json") == 0
    shown = {one["node_id"]: one for one in json.loads(capsys.readouterr().out)}
    assert (shown["n1"]["state"], shown["n2"]["state"]) == ("cordoned", "running")
    assert yarnam(world, "nodes", "uncordon", "n1") == 0
    assert capsys.readouterr().out == "n1 is open to gangs again\n"
    assert kept.kept == {}
    assert yarnam(world, "nodes", "uncordon", "n1") == ExitCode.USAGE


@pytest.mark.parametrize("was_cordoned", [True, False])
def test_undrain_takes_back_what_drain_wrote(
    world: World, kept: Places, was_cordoned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if was_cordoned:
        assert yarnam(world, "nodes", "cordon", "n1", "--reason", "disk") == 0
        assert yarnam(world, "nodes", "undrain", "n1") == ExitCode.USAGE, "it is not drained"
    assert yarnam(world, "nodes", "drain", "n1", "--deadline", "30min") == 0
    limit_s = kept.kept["node", "n1"].drain_by_s
    assert limit_s == pytest.approx(time.time() + 1800.0, abs=60.0)
    assert "its gangs leave within" in capsys.readouterr().out
    assert yarnam(world, "nodes", "undrain", "n1") == 0
    left = kept.kept.get(("node", "n1"))
    if was_cordoned:
        assert left is not None
        assert (left.reason, left.drain_by_s) == ("disk", None)
    else:
        assert left is None


def test_a_cordon_does_not_end_a_drain(world: World, kept: Places) -> None:
    assert yarnam(world, "nodes", "drain", "n1", "--deadline", "30m") == 0
    drained = kept.kept["node", "n1"]
    assert yarnam(world, "nodes", "cordon", "n1") == 0
    assert kept.kept["node", "n1"].drain_by_s == drained.drain_by_s
    assert yarnam(world, "nodes", "undrain", "n1") == 0
    assert kept.kept["node", "n1"].drain_by_s is None, "it stays cordoned"


def test_a_queue_is_stopped_and_resumed(
    world: World, kept: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    assert yarnam(world, "queues", "stop", "root.dl", "--reason", "upgrade", "--drain", "1h") == 0
    assert "root.dl is stopped by me: upgrade; its gangs leave within" in capsys.readouterr().out
    closure = kept.kept["queue", "root.dl"]
    assert closure.drain_by_s == pytest.approx(time.time() + 3600.0, abs=60.0)
    assert yarnam(world, "queues", "resume", "root.dl", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"name": "root.dl", "closure": None}
    assert kept.kept == {}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("nodes", "cordon", "n11"), "the cluster has no node 'n11'"),
        (("queues", "stop", "root.d"), "the cluster has no queue 'root.d'"),
        (("nodes", "drain", "n1", "--deadline", "30"), "--deadline: a duration needs a unit"),
        (("nodes", "cordon", "n1", "--reason", "x" * 501), "at most 500"),
    ],
)
def test_a_slip_is_refused_and_changes_nothing(
    world: World,
    kept: Places,
    arguments: tuple[str, ...],
    text: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert yarnam(world, *arguments) == ExitCode.USAGE
    assert text in capsys.readouterr().err
    assert kept.kept == {}


def test_who_does_not_administer_it_is_refused(world: World, kept: Places) -> None:
    world.rm.admin_rights["me"] = False
    world.rm.configuration["yarn.admin.acl"] = "root"
    for words in (("nodes", "cordon", "n1"), ("queues", "stop", "root.dl")):
        assert yarnam(world, *words) == ExitCode.NO_PERMISSION
    assert kept.kept == {}


def test_the_administrators_credentials_protect_it(
    world: World, kept: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = world.folder / "admin"
    secret.write_text("digest:admin:secret\n")
    secret.chmod(0o600)
    world.site.environ = {**world.site.environ, "YARNAM_ZOOKEEPER_ADMIN_AUTH_FILE": str(secret)}
    assert yarnam(world, "nodes", "cordon", "n1") == 0
    assert kept.admin == "digest:admin:secret"
    assert "may change this" not in capsys.readouterr().err


def test_nodes_are_listed_while_zookeeper_is_away(world: World, kept: Places) -> None:
    kept.failure = Unavailable("ZooKeeper is away")
    assert yarnam(world, "nodes") == 0


def test_without_a_zookeeper_it_says_where_else(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.site.zookeeper = ""
    assert yarnam(world, "nodes", "cordon", "n1") == ExitCode.USAGE
    assert "are kept in ZooKeeper, and none is configured" in capsys.readouterr().err
