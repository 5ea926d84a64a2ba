"""Through a gateway alone: nothing else of the cluster is there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hdfs_utils.config.delegation_tokens import DelegationToken
from hdfs_utils.config.gateway import Gateway, gateway_at
from hdfs_utils.errors import BadConfig as HdfsBadConfig
from hdfs_utils.errors import NotAuthenticated, NotSupported
from hdfs_utils.journal.log import AppendLog
from tests.contract.test_cluster_view_contract import leaf, node, scheduler
from tests.unit.client.front_door import FrontDoor
from tests.unit.client.monitor.test_requested_size import KEY
from tests.unit.client.test_site import configuration
from tests.unit.client.world import APPLICATION, World, job_spec
from tests.unit.hdfs_utils.protocols.test_token_lifetime import hdfs_identifier
from yarnam.adapters.yarn.rest import ResourceManager
from yarnam.cli.shell import Shell, run
from yarnam.client.site import Site, open_site
from yarnam.client.submit.preflight import checked_on
from yarnam.core.model.events import JobStarted
from yarnam.core.model.job_spec import PlacementSpec, TopologyConstraint
from yarnam.core.model.plans import LocalityLevel
from yarnam.core.model.snapshot import Scheduler
from yarnam.errors import (
    BadConfig,
    ExitCode,
    NoPermission,
    NotThroughGateway,
    Unavailable,
    UsageError,
)
from yarnam.wire.codec import encode_event
from yarnam.wire.protocol import JOURNAL_DIRECTORY

PASSWORD = "s3cret"
GATEWAY = Gateway("https://knox.example:8443/gateway/prod")


@pytest.fixture
def door(tmp_path: Path) -> Iterator[FrontDoor]:
    with FrontDoor(tmp_path).open() as found:
        yield found


def environ_of(door: FrontDoor, folder: Path, password: str = PASSWORD) -> dict[str, str]:
    names = folder / "netrc"
    names.write_text(
        f"machine other login bob password x\nmachine 127.0.0.1 login alice password {password}\n"
    )
    return {"YARNAM_GATEWAY": door.url, "NETRC": str(names)}


def site_behind(door: FrontDoor, folder: Path, password: str = PASSWORD, **more: str) -> Site:
    """The configuration is the cluster's own: its addresses lead nowhere from here."""
    (folder / "site-authority.pem").write_text(door.authority)
    conf = configuration(folder, None, **{"fs.defaultFS": "hdfs://inner"})
    return open_site(conf, environ={**environ_of(door, folder, password), **more})


def hidden(number: int) -> dict[str, Any]:
    """As Knox 2.0 rewrites a node of ``/ws/v1/cluster/nodes``."""
    return node(number, id=f"q8vX{number}_-Zw", nodeHostName="", nodeHTTPAddress="")


# ---- signing in ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://knox:8443/gateway/prod", "has to be like https://"),
        ("https://alice:s3cret@knox:8443/gateway/prod", "holds a name or a password"),
        ("https://knox:8443/gateway/prod?token=s3cret", "has to be like https://"),
        ("https://knox:port/gateway/prod", "has to be like https://"),
        ("knox:8443/gateway/prod", "has to be like https://"),
    ],
)
def test_addresses_that_are_none(address: str, said: str) -> None:
    with pytest.raises(HdfsBadConfig, match=said) as caught:
        gateway_at(address)
    assert "alice" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no name and password"),
        ("machine other login alice password s3cret\n", "no name and password"),
        ("machine knox.example login alice\n", "no name and password"),
        ("machine knox.example login alice s3cret\n", "cannot be read: NetrcParseError"),
    ],
)
def test_a_netrc_without_the_gateway(tmp_path: Path, content: str | None, said: str) -> None:
    names = tmp_path / "netrc"
    if content is not None:
        names.write_text(content)
    with pytest.raises(HdfsBadConfig, match=said) as caught:
        replace(GATEWAY, netrc_file=str(names)).headers()
    assert PASSWORD not in str(caught.value)


def test_a_token_is_read_anew_for_each_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    gateway = replace(GATEWAY, token_file=str(token))
    for content in ("one", "two"):
        token.write_text(f"{content}\n")
        assert gateway.headers()["Authorization"] == f"Bearer {content}"
    token.write_text("two\nX-Evil: yes")
    with pytest.raises(HdfsBadConfig, match="holds no token") as caught:
        gateway.headers()
    assert "Evil" not in str(caught.value)


def test_the_user_is_who_signs_in(door: FrontDoor, tmp_path: Path) -> None:
    assert site_behind(door, tmp_path).user == "alice"
    assert site_behind(door, tmp_path, HADOOP_USER_NAME="asmith").user == "asmith"
    assert not door.asked
    with pytest.raises(BadConfig, match=r"alice signs in to the gateway .*, not bob"):
        open_site(tmp_path, "bob", environ=environ_of(door, tmp_path))


def test_what_to_do_about_the_gateway_is_said(door: FrontDoor, tmp_path: Path) -> None:
    site = site_behind(door, tmp_path)
    with pytest.raises(BadConfig, match="no name and password") as caught:
        site_behind(door, tmp_path, NETRC=str(tmp_path / "none"))
    assert "netrc" in caught.value.hint
    assert site.gateway is not None
    away = replace(site.gateway, url="https://127.0.0.1:1/gateway/x")
    rm = ResourceManager(("http://rm:8088",), who=replace(site.who, gateway=away))
    with pytest.raises(Unavailable, match="no answer") as nobody:
        rm.info()
    assert "YARNAM_GATEWAY" in nobody.value.hint


def test_a_wrong_password_is_named_and_not_shown(
    door: FrontDoor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    site = site_behind(door, tmp_path, "wr0ng")
    with pytest.raises(NoPermission, match="does not accept the caller's identity") as caught:
        site.rm.info()
    with pytest.raises(NotAuthenticated, match="does not accept the caller's identity") as refused:
        site.files.exists("/")
    assert "wr0ng" not in f"{caught.value}{refused.value}{caplog.text}{door.asked}"


def test_a_topology_that_is_none(door: FrontDoor, tmp_path: Path) -> None:
    site = site_behind(door, tmp_path, YARNAM_GATEWAY=door.url.replace("prod", "prd"))
    with pytest.raises(UsageError, match="gateway/prd has no /ws/v1/cluster/info") as caught:
        site.rm.info()
    assert "YARNAM_GATEWAY" in caught.value.hint
    with pytest.raises(HdfsBadConfig, match="gateway/prd has no WebHDFS"):
        site.files.exists("/")


# ---- what goes through it ------------------------------------------------------------------


def test_files(door: FrontDoor, tmp_path: Path) -> None:
    door.files.mkdirs("/user/alice")
    files = site_behind(door, tmp_path).files
    path = "hdfs://inner/user/alice/a file=1"
    files.write_bytes(path, b"content")
    assert files.read_bytes(path) == b"content"
    assert [one.path for one in files.list("/user/alice")] == ["/user/alice/a file=1"]
    files.rename(path, "/user/alice/b")
    files.write_atomic("/user/alice/b", b"other", overwrite=True)
    assert files.read_bytes("/user/alice/b") == b"other"
    assert set(door.signed_in) == {door.accepted}
    assert all("user.name" not in asked for _, asked in door.asked)


def test_the_gateway_has_one_file_system(door: FrontDoor, tmp_path: Path) -> None:
    site = site_behind(door, tmp_path)
    with pytest.raises(NotSupported, match="cannot be reached through the gateway, which has"):
        site.connect("hdfs://other/x")
    assert site.connect("hdfs://inner/x").uri == "hdfs://inner"


def test_nobody_else_is_told_who_asks(door: FrontDoor, tmp_path: Path) -> None:
    """A redirect that the gateway has not rewritten leads past it."""
    site = site_behind(door, tmp_path)
    door.files.mkdirs("/user/alice")
    door.files.write_bytes("/user/alice/a", b"content")
    with FrontDoor(tmp_path).open() as elsewhere:
        door.data_at = elsewhere.url.partition("/gateway")[0]
        for use in (
            lambda: site.files.read_bytes("/user/alice/a"),
            lambda: site.files.write_bytes("/user/alice/b", b"x"),
        ):
            with pytest.raises(NotSupported, match="instead of through itself"):
                use()
        assert elsewhere.asked == []


def test_the_resource_manager(door: FrontDoor, tmp_path: Path) -> None:
    door.pages["/v1/cluster/nodes"] = {"nodes": {"node": [hidden(n) for n in (1, 2, 3, 4)]}}
    door.pages["/v1/cluster/scheduler"] = scheduler(leaf("root.dl"))
    site = site_behind(door, tmp_path)
    found = site.snapshot("root.dl")
    assert [str(one.node_id) for one in found.nodes] == [f"hidden-{n:04d}" for n in (1, 2, 3, 4)]
    assert not found.has_node_names
    assert {str(one.rack) for one in found.nodes} == {"/rack1", "/rack2"}
    assert site.rm.url == "http://127.0.0.1:8088", "jobs ask it there"
    with pytest.raises(NoPermission, match="does not show the ResourceManager's configuration"):
        site.rm.settings()
    with pytest.raises(NotThroughGateway, match="n1:8042 cannot be reached through the gateway"):
        site.node_settings("n1:8042", "http")
    assert all(path.startswith("/gateway/prod/resourcemanager/v1/") for _, path in door.asked)


def test_a_job_is_asked_for_by_rack_where_nodes_are_hidden(door: FrontDoor, tmp_path: Path) -> None:
    door.pages["/v1/cluster/nodes"] = {"nodes": {"node": [hidden(n) for n in (1, 2, 3, 4)]}}
    door.pages["/v1/cluster/scheduler"] = scheduler(leaf("root.dl"))
    snapshot = site_behind(door, tmp_path).snapshot("root.dl")
    checked = checked_on(snapshot, job_spec())
    levels = {target.level for target in checked.targets}
    assert levels == {LocalityLevel.RACK, LocalityLevel.ANY}
    by_name = job_spec(placement=PlacementSpec(include_nodes=("n1",)))
    with pytest.raises(NotThroughGateway, match="include_nodes names nodes, and the gateway hides"):
        checked_on(snapshot, by_name)
    capacity = replace(snapshot, scheduler=Scheduler.CAPACITY)
    one_rack = job_spec(placement=PlacementSpec(rack=TopologyConstraint.REQUIRED))
    assert checked_on(snapshot, one_rack).targets
    with pytest.raises(NotThroughGateway, match="hello can only be asked for by the names of"):
        checked_on(capacity, one_rack)
    assert {one.level for one in checked_on(capacity, job_spec()).targets} == {LocalityLevel.ANY}


def test_a_job_of_a_secure_cluster_has_its_tokens_through_it(
    door: FrontDoor, tmp_path: Path
) -> None:
    """The client has no ticket: the gateway asks for it."""

    def token(kind: str, renewer: str) -> str:
        identifier = hdfs_identifier("alice", renewer, 1.8e9)
        return DelegationToken(kind, "10.0.0.1:8020", identifier, b"secret").for_url()

    door.hdfs_token = lambda renewer: token("SWEBHDFS delegation", renewer)
    door.pages["/v1/cluster/delegation-token"] = {
        "token": token("RM_DELEGATION_TOKEN", "yarn"), "expiration-time": 1_700_000_000_000,
    }  # fmt: skip
    (tmp_path / "site-authority.pem").write_text(door.authority)
    core = {"fs.defaultFS": "hdfs://inner", "yarn.resourcemanager.principal": "yarn@EXAMPLE.COM"}
    conf = configuration(tmp_path, "kerberos", **core)
    site = open_site(conf, environ=environ_of(door, tmp_path))
    assert site.open_token_source is not None
    assert set(site.open_token_source().for_submission().by_alias) == {
        "ha-hdfs:inner", "yarnam-rm",
    }  # fmt: skip
    assert set(door.signed_in) == {door.accepted}


# ---- what does not -------------------------------------------------------------------------


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A running job of a cluster behind a gateway. Whoever tries to go past it fails the test."""
    from yarnam.adapters.zookeeper import session

    def past_the_gateway(*_: object, **__: object) -> Any:
        raise AssertionError("past the gateway")

    monkeypatch.setattr(session, "ZooKeeper", past_the_gateway)
    made = World(tmp_path)
    made.site.gateway = GATEWAY
    made.site.zookeeper = "zk:2181/yarnam/x"
    made.site.open_job_client = past_the_gateway
    return made


def yarnam(world: World, *arguments: str) -> int:
    return run(arguments, Shell(lambda **_: world.client))


@pytest.mark.parametrize(
    "command",
    [
        ("suspend", APPLICATION, "--force"),
        ("resume", APPLICATION),
        ("logs", APPLICATION),
        ("logs", APPLICATION, "--am"),
        ("policy", "show", "root.dl"),
        ("policy", "set", "root.dl", "fifo"),
    ],
    ids=lambda command: "-".join(command[:2]),
)
def test_commands_that_need_more_say_so_at_once(
    world: World, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    world.job()
    assert yarnam(world, *command) == ExitCode.BAD_CONFIG
    said = capsys.readouterr().err
    assert "cannot be reached through the gateway https://knox.example:8443/gateway/prod" in said
    assert "on an edge node: yarnam docs gateway" in said


def test_the_status_of_a_running_job_follows_from_its_journal(world: World) -> None:
    job = world.job(key=KEY)
    assert job.status().reason == "the ApplicationMaster is starting"
    journal = AppendLog.open(world.files, f"/user/me/.yarnam/jobs/{KEY}/{JOURNAL_DIRECTORY}", 1)
    journal.append([encode_event(JobStarted(at_s=1001.0))])
    found = job.status()
    assert (found.state.value, found.name, found.queue) == ("QUEUED", "hello", "root.dl")
    assert found.reason != "the ApplicationMaster is starting"
    assert [type(event) for event in job.events()] == [JobStarted]


def test_kill_is_the_resource_managers(world: World) -> None:
    world.job()
    assert world.client.job(APPLICATION).kill("enough").state.value == "CANCELLED"
    assert world.rm.killed == [APPLICATION]
    assert "enough" in world.client.job(APPLICATION).status().reason
