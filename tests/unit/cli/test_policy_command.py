"""``yarnam policy`` over a client on fakes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.accounting.records import many
from tests.unit.client.monitor.test_requested_size import KEY
from tests.unit.client.world import APPLICATION, World, status
from yarnam.adapters.hdfs.history_store import HistoryStore
from yarnam.cli.shell import Shell, run
from yarnam.client.site import Site
from yarnam.core.accounting.past_services import LEAST_JOBS
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.job_status import JobState, PolicyStatus
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Node, NodeState, QueueView
from yarnam.core.model.tickets import RunningGang
from yarnam.core.policies.chosen_policy import NOTHING_CHOSEN, QueuePolicy
from yarnam.core.policies.policy_registry import NAMES
from yarnam.core.queue_client.ticket_list import TicketList
from yarnam.core.queues import access_lists
from yarnam.core.queues.queue_state import QueueState
from yarnam.errors import UsageError

QUEUE = "root.dl"


class Policies:
    """What ``queue_policies.QueuePolicies`` keeps."""

    def __init__(self) -> None:
        self.kept: dict[str, QueuePolicy] = {}
        self.admin = ""

    def of(self, queue: str) -> QueuePolicy:
        return self.kept.get(queue, NOTHING_CHOSEN)

    def all(self) -> dict[str, QueuePolicy]:
        return self.kept

    def choose(
        self, queue: str, chosen: QueuePolicy, *, expected: int, admin: str = ""
    ) -> QueuePolicy:
        if self.of(queue).version != expected:
            raise UsageError(f"the policy of {queue} was changed meanwhile")
        self.admin = admin
        self.kept[queue] = replace(chosen, version=expected + 1)
        return self.kept[queue]

    def is_protected(self, queue: str) -> bool:
        return bool(self.admin)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.job(key=KEY)
    made.site.zookeeper = "zk1:2181/yarnam"
    return made


@pytest.fixture
def kept(world: World, monkeypatch: pytest.MonkeyPatch) -> Policies:
    found = Policies()

    @contextmanager
    def opened(site: Site) -> Iterator[Any]:
        yield found

    monkeypatch.setattr("yarnam.client.queues.chosen_policies._opened", opened)
    return found


def yarnam(world: World, *arguments: str) -> int:
    return run(arguments, Shell(lambda **_: world.client))


def test_a_policy_is_chosen_shown_and_listed(
    world: World, kept: Policies, capsys: pytest.CaptureFixture[str]
) -> None:
    assert yarnam(world, "policy", "set", QUEUE, "tiresias", "limits=3600,36000") == 0
    heard = capsys.readouterr()
    assert "root.dl: tiresias limits=3600,36000 (by me, " in heard.out
    assert "may change this" in heard.err, "nothing protects it"
    assert yarnam(world, "policy", "set", QUEUE, "fifo") == 0
    assert "before: tiresias limits=3600,36000 (by me" in capsys.readouterr().out
    assert yarnam(world, "policy", "show", QUEUE) == 0
    out = capsys.readouterr().out
    assert "version 2" in out
    assert "skip" in out, "all settings, with their defaults"
    assert yarnam(world, "policy", "ls") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in NAMES)
    assert "root.dl" in out


def test_of_two_administrators_the_later_one_is_refused(world: World, kept: Policies) -> None:
    assert yarnam(world, "policy", "set", QUEUE, "fifo", "--version", "0") == 0
    assert yarnam(world, "policy", "set", QUEUE, "srtf", "--version", "0") == 64
    assert kept.of(QUEUE).policy == "fifo"


@pytest.mark.parametrize(
    "slip",
    [
        ["no-such"],
        ["tiresias", "limits=-1"],
        ["tiresias", "limits=nan"],
        ["fifo", "limits=3"],
        ["fifo", "skip"],
        ["fifo", "skip=1", "skip=0"],
    ],
)
def test_a_slip_is_refused_and_changes_nothing(
    world: World, kept: Policies, slip: list[str]
) -> None:
    assert yarnam(world, "policy", "set", QUEUE, *slip) == 64
    assert kept.kept == {}


def test_a_queue_that_is_not_there_is_refused(
    world: World,
    kept: Policies,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = replace(world.site.rm.snapshot(QUEUE), queues=(QueueView(QUEUE),))
    monkeypatch.setattr(world.site.rm, "snapshot", lambda queue: shown)
    assert yarnam(world, "policy", "set", "root.typo", "fifo") == 64
    assert "there is no leaf queue 'root.typo'" in capsys.readouterr().err


def test_an_administrators_credentials_protect_it(
    world: World, kept: Policies, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "admin.auth"
    file.write_text("digest:admin:secret\n")
    name = "YARNAM_ZOOKEEPER_ADMIN_AUTH_FILE"
    world.site.environ = {**world.site.environ, name: str(file)}
    assert yarnam(world, "policy", "set", QUEUE, "fifo") == 0
    assert kept.admin == "digest:admin:secret"
    heard = capsys.readouterr()
    assert "may change this" not in heard.err
    assert "secret" not in heard.out + heard.err


def test_without_zookeeper_nothing_can_be_chosen(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.site.zookeeper = ""
    assert yarnam(world, "policy", "set", QUEUE, "fifo") == 64
    assert "kept in ZooKeeper, and none is configured" in capsys.readouterr().err
    assert yarnam(world, "policy", "ls") == 0


def test_what_it_has_decided_for_a_job_is_told(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.line.statuses = [status(JobState.QUEUED)]
    assert yarnam(world, "policy", "explain", APPLICATION) == 0
    assert "has not started yet" in capsys.readouterr().out
    running = replace(status(JobState.RUNNING), phase="RUNNING")
    world.line.statuses = [running]
    assert yarnam(world, "policy", "explain", APPLICATION) == 0
    assert "nothing is chosen for its queue" in capsys.readouterr().out
    row = PolicyStatus("tiresias", 7, "yield", 0, 3, "queue 2 of 3", "", 900.0, 4.5, True)
    world.line.statuses = [replace(running, policy=row)]
    assert yarnam(world, "policy", "explain", APPLICATION) == 0
    out = capsys.readouterr().out
    assert "yield, rank 3: queue 2 of 3" in out
    assert "a suspend and start: 4.5 s" in out
    assert yarnam(world, "policy", "explain", APPLICATION, "--json") == 0
    assert json.loads(capsys.readouterr().out)["policy"]["rank"] == 3


def test_the_client_chooses_and_shows(world: World, kept: Policies) -> None:
    policies = world.client.policies
    choice = policies.choose(QUEUE, "tiresias", {"limits": "3600,36000"})
    assert (choice.before.version, choice.now.version, choice.is_protected) == (0, 1, False)
    assert policies.of(QUEUE) == policies.all()[QUEUE] == choice.now
    with pytest.raises(UsageError, match="changed meanwhile"):
        policies.choose(QUEUE, "fifo", version=7)


def test_who_does_not_administer_the_queue_is_refused_by_name(
    world: World, kept: Policies, capsys: pytest.CaptureFixture[str]
) -> None:
    world.rm.admin_rights["me"] = False
    world.rm.configuration["yarn.admin.acl"] = "yarn,ann admins"
    assert yarnam(world, "policy", "set", QUEUE, "fifo") == 77
    heard = capsys.readouterr().err
    assert "me does not administer root.dl: the ResourceManager says so" in heard
    assert "yarn.admin.acl (now 'yarn,ann admins')" in heard
    assert kept.kept == {}
    # Whoever administers the whole cluster need not be in the queue's list; nor does anybody where
    # the ResourceManager does not tell.
    world.rm.configuration["yarn.admin.acl"] = "yarn,me"
    assert yarnam(world, "policy", "set", QUEUE, "fifo") == 0
    world.rm.configuration["yarn.admin.acl"] = " "
    world.rm.admin_rights["me"] = None
    assert yarnam(world, "policy", "set", QUEUE, "fifo", "skip=1") == 0


@pytest.mark.parametrize(
    ("acl", "is_in_it"),
    [
        ("*", True), (" * ", True), (" ", False), ("", False), ("ann", True), ("bob, ann", False),
        ("bob,ann", True), ("bob staff,gpu", True), (" staff", True), ("staff", False),
        ("bob others", False),
    ],
)  # fmt: skip
def test_hadoops_access_control_lists(acl: str, *, is_in_it: bool) -> None:
    assert access_lists.is_in(acl, "ann", {"gpu", "staff"}) is is_in_it


# ---- whole nodes ---------------------------------------------------------------------------------


@pytest.fixture
def two_queues(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """Four nodes of 8 GPUs: one of root.a alone, one with a GPU of root.b, one with strangers."""
    world.rm.queue_names = ["root.a", "root.b"]
    world.rm.nodes = tuple(
        Node(NodeId(f"n{at}"), RackId("/r"), NodeState.RUNNING, Resources(65536, 64, 8),
             Resources(1, 1, used))
        for at, used in enumerate((4, 1, 2, 0))
    )  # fmt: skip
    gangs = (
        RunningGang("app_a", "root.a", 4, None, ((NodeId("n0"), 4),)),
        RunningGang("app_b", "root.b", 1, None, ((NodeId("n1"), 1),)),
    )
    listed = TicketList(running=gangs)
    monkeypatch.setattr("yarnam.client.queues.cells_now.read_wait_queue", lambda site: listed)
    return world


def test_a_quota_of_whole_nodes_is_told_with_those_who_break_it(
    two_queues: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert yarnam(two_queues, "policy", "cells", "--quota", "root.a=3") == 0
    out = capsys.readouterr().out
    assert "4 whole nodes of 8 GPUs, 1 of them free; the quotas still cover 2" in out
    assert "root.a could have 1 more if these were not there:" in out
    assert "n1    1     app_b  root.b" in out, "the one with the least use by others"
    arguments = ["policy", "cells", "root.a", "--quota", "root.a=4", "--json"]
    assert yarnam(two_queues, *arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["is_fragmented"]
    [row] = found["queues"]
    assert (row["own"], row["free"], row["lacks"]) == (1, 1, 2)
    assert [one["others"][0]["job"] for one in row["broken"]] == ["app_b", ""]


def test_quotas_that_cannot_all_be_had_are_told(
    two_queues: World, capsys: pytest.CaptureFixture[str]
) -> None:
    quotas = ["--quota", "root.a=2", "--quota", "root.b=2"]
    assert yarnam(two_queues, "policy", "cells", *quotas) == 0
    assert "but not all together: 1 nodes are missing" in capsys.readouterr().out


def test_the_quota_is_what_yarn_guarantees(
    two_queues: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert yarnam(two_queues, "policy", "cells") == 64
    assert "no queue is guaranteed a whole node of 8 GPUs" in capsys.readouterr().err
    leaf = QueueState("root.a", "drf", minimum=Resources(0, 0, 20))
    two_queues.rm.queue_tree = QueueState("root", "drf", children=(leaf,), is_leaf=False)
    assert yarnam(two_queues, "policy", "cells", "--json") == 0
    assert json.loads(capsys.readouterr().out)["queues"][0]["quota"] == 2


@pytest.mark.parametrize("slip", ["root.a", "root.a=x", "=3", "root.a=-1", "root.typo=1"])
def test_a_slip_in_a_quota_is_refused(two_queues: World, slip: str) -> None:
    assert yarnam(two_queues, "policy", "cells", "--quota", slip) == 64


def test_without_tickets_all_use_is_unknown(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.site.zookeeper = ""
    assert yarnam(world, "policy", "cells", "--quota", f"{QUEUE}=1") == 0
    assert "without a ZooKeeper" in capsys.readouterr().err


# ---- services of past jobs -----------------------------------------------------------------------


def test_gittins_takes_the_services_of_past_jobs_from_the_history(
    world: World, kept: Policies, capsys: pytest.CaptureFixture[str]
) -> None:
    store = HistoryStore(world.files, world.site.paths.history)
    for one in many(LEAST_JOBS):
        store.put(replace(one, user="me", queue=QUEUE))
    assert yarnam(world, "policy", "set", QUEUE, "gittins") == 0
    assert f"not given: {LEAST_JOBS} services of past jobs of {QUEUE}" in capsys.readouterr().out
    (name, text), *_ = kept.of(QUEUE).settings
    assert name == "samples"
    assert [float(one) for one in text.split(",")] == [360.0] * LEAST_JOBS
    assert yarnam(world, "policy", "set", QUEUE, "gittins", "samples=5,7") == 0
    assert kept.of(QUEUE).settings == (("samples", "5,7"),)


def test_gittins_without_a_past_says_so(
    world: World, kept: Policies, capsys: pytest.CaptureFixture[str]
) -> None:
    assert yarnam(world, "policy", "set", QUEUE, "gittins") == 0
    assert f"fewer than {LEAST_JOBS} jobs of {QUEUE}" in capsys.readouterr().out
    assert kept.of(QUEUE).settings == ()


def test_the_numbers_of_a_list_come_from_a_file(
    world: World, kept: Policies, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "services"
    file.write_text("100 200,\n300\n")
    assert yarnam(world, "policy", "set", QUEUE, "gittins", f"samples=@{file}") == 0
    assert kept.of(QUEUE).settings == (("samples", "100,200,300"),)
    assert yarnam(world, "policy", "set", QUEUE, "gittins", f"samples=@{file}.gone") == 64
    assert "cannot read numbers from" in capsys.readouterr().err
    file.write_bytes(b"\xff1")
    assert yarnam(world, "policy", "set", QUEUE, "gittins", f"samples=@{file}") == 64
    file.write_text("many")
    assert yarnam(world, "policy", "set", QUEUE, "gittins", f"samples=@{file}") == 64


def test_the_former_name_of_cells_is_refused_with_the_new_one(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert yarnam(world, "policy", "what-if", "root.a", "--json") == 64
    assert "`yarnam policy cells` now" in capsys.readouterr().out
