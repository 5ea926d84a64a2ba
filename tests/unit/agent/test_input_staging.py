"""The agent's part in bringing inputs to the node; files of this machine play HDFS."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hdfs_utils.errors import CorruptData, NotFound, PermissionDenied
from hdfs_utils.errors import Unavailable as HdfsUnavailable
from hdfs_utils.node_cache import ChangedInput, NodeStore, NoSpace
from yarnam.agent.data.input_staging import InputStaging, cache_places, staging_error
from yarnam.agent.machine.agent_directives import Launch, ProcessLaunch
from yarnam.agent.task_config import ContainerSettings, TaskJob
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import DataInput, InputMode, Sharding
from yarnam.errors import BadSpec, Blame, InternalError, Unavailable, YarnamError
from yarnam.wire.input_manifest import ListedInput, encode_manifest
from yarnam.wire.protocol import ENV_SDK

FILES = 8


@dataclass
class World:
    """A node with one container."""

    root: Path
    reports: int = 0
    failed: list[YarnamError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.application = self.root / "local/usercache/ann/appcache/application_1_1"
        self.directory = self.application / "container_1"
        self.directory.mkdir(parents=True)
        self.source = self.root / "source"
        self.source.mkdir()
        for number in range(FILES):
            (self.source / f"part-{number}").write_bytes(bytes([number]) * 100)

    def list_inputs(self, mode: InputMode, shard: Sharding) -> None:
        given = DataInput("set", f"file://{self.source}", mode=mode, shard=shard)
        files = []
        for path in sorted(self.source.iterdir()):
            status = path.stat()
            files.append((path.name, status.st_size, status.st_mtime_ns // 1_000_000))
        plain = encode_manifest([ListedInput(given, str(self.source), False, files)])
        (self.directory / "yarnam-inputs.json.gz").write_bytes(plain)

    def staging(
        self, number: int = 0, tasks: int = 2, *, retry_first_s: float = 1.0
    ) -> InputStaging:
        settings = ContainerSettings(
            self.directory, AskId(1, "worker", number), "", "am:1", "container_1", "n1", "n1:1",
            "n1:2", self.directory, "", "",
        )  # fmt: skip
        job = TaskJob(
            name="j", user="ann", framework="command", runs_as="command", role="worker",
            command=("x",), processes=1, gpus=0, port_labels=(), env=(), secrets=(), files=(),
            python="python3",
            has_environment=False,
            has_inputs=True, is_staged=True, cache_max_bytes=0, readers=(("worker", tasks),),
            orphan_timeout_s=30.0, stop_grace_s=10.0, failure_grace_s=2.0, spool_limit_s=0.0,
        )  # fmt: skip
        return InputStaging(
            settings, job, self.note, self.failed.append, retry_first_s=retry_first_s
        )

    def note(self) -> None:
        self.reports += 1

    def shown(self) -> set[str]:
        folder = self.directory / "yarnam-inputs/set"
        return {path.name for path in folder.iterdir()} if folder.exists() else set()


def order(*shares: int, of: int = 2, role: str = "worker") -> Launch:
    processes = [
        ProcessLaunch(rank=share, env={ENV_SDK: json.dumps({"input_share": [share, of]})})
        for share in shares
    ]
    return Launch(1, role, processes=tuple(processes) or (ProcessLaunch(),))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    monkeypatch.setenv("LOCAL_DIRS", str(made.application))
    return made


def test_what_it_will_read_is_there_before_it_is_asked_for(world: World) -> None:
    world.list_inputs(InputMode.LOCALIZE, Sharding.FILES)

    async def play() -> None:
        staging = world.staging(number=1)
        await staging.begin()
        while len(mine := world.shown()) < FILES // 2 or not world.reports:
            await asyncio.sleep(0.01)
        await staging.prepare(order(1))
        assert world.shown() == mine
        report = staging.report()
        assert (report.files, report.files_done, report.size, report.done) == (4, 4, 400, 400)
        assert report.cached == 0
        await staging.close()

    asyncio.run(play())
    assert world.failed == []
    assert world.reports


def test_another_share_than_expected_is_fetched_and_the_rest_given_up(world: World) -> None:
    world.list_inputs(InputMode.LOCALIZE, Sharding.FILES)

    async def play() -> None:
        staging = world.staging(number=1)
        await staging.begin()
        await staging.prepare(order(0))
        first = world.shown()
        await staging.prepare(order(0, 1))
        assert world.shown() == {f"part-{n}" for n in range(FILES)}
        await staging.prepare(order(1))
        assert world.shown() == {f"part-{n}" for n in range(FILES)} - first
        # The files themselves, not only the links to them.
        own = world.directory / "yarnam-inputs-own/set"
        assert {path.name for path in own.iterdir()} == world.shown()
        await staging.close()

    asyncio.run(play())


def test_who_has_no_share_reads_all_and_a_server_nothing(world: World) -> None:
    world.list_inputs(InputMode.CACHE, Sharding.FILES)

    async def play() -> None:
        staging = world.staging(tasks=3)
        await staging.begin()
        await staging.prepare(order(role="evaluator"))
        assert len(world.shown()) == FILES
        await staging.prepare(order(role="ps"))
        assert world.shown() == set()
        await staging.close()

    asyncio.run(play())


def test_a_file_that_was_changed_is_told_early_and_is_the_jobs_fault(world: World) -> None:
    world.list_inputs(InputMode.CACHE, Sharding.NONE)
    (world.source / "part-3").write_bytes(b"something else")

    async def play() -> None:
        staging = world.staging()
        await staging.begin()
        while not world.failed:
            await asyncio.sleep(0.01)
        with pytest.raises(BadSpec, match=r"part-3: changed since the job was submitted"):
            await staging.prepare(order(0))
        await staging.close()

    asyncio.run(play())
    assert world.failed[0].blame is Blame.USER


def test_while_hdfs_does_not_answer_it_says_so_and_tries_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.list_inputs(InputMode.CACHE, Sharding.NONE)
    real, calls = NodeStore.fetch, 0

    def fetch(*given: object, **more: object) -> object:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise HdfsUnavailable("the NameNode is in safe mode")
        return real(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(NodeStore, "fetch", fetch)
    troubles = set()

    async def play() -> None:
        staging = world.staging(retry_first_s=0.3)
        await staging.begin()
        while not staging.report().trouble:
            await asyncio.sleep(0.01)
        troubles.add(staging.report().trouble)
        await staging.prepare(order(0))
        assert staging.report().trouble == ""
        await staging.close()

    asyncio.run(play())
    assert troubles == {"the NameNode is in safe mode"}
    assert world.failed == []


def test_a_container_that_leaves_stops_fetching(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.list_inputs(InputMode.CACHE, Sharding.NONE)

    def fetch(*_: object, **__: object) -> object:
        raise HdfsUnavailable("away")

    monkeypatch.setattr(NodeStore, "fetch", fetch)

    async def play() -> float:
        staging = world.staging()
        await staging.begin()
        while not staging.report().trouble:
            await asyncio.sleep(0.01)
        began = asyncio.get_running_loop().time()
        await staging.close()
        return asyncio.get_running_loop().time() - began

    assert asyncio.run(play()) < 0.9  # the pause between two tries is cut short


def test_without_its_list_a_task_cannot_be_made_ready(world: World) -> None:
    with pytest.raises(Unavailable, match="inputs cannot be staged on this node"):
        asyncio.run(world.staging().begin())


def test_the_cache_is_the_users_own_on_each_disk(world: World, tmp_path: Path) -> None:
    other = tmp_path / "disk2/usercache/ann/appcache/application_1_1"
    other.mkdir(parents=True)
    staging = world.staging()
    found = cache_places(staging._settings, f"{world.application},{other},/not/there")
    assert [place.cache for place in found] == [
        tmp_path / "local/usercache/ann/yarnam-cache",
        tmp_path / "disk2/usercache/ann/yarnam-cache",
    ]
    assert [place.own.parent.name for place in found] == ["container_1", "container_1"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NotFound("gone", path="/a"), BadSpec),
        (PermissionDenied("not yours", path="/a"), BadSpec),
        (ChangedInput("was changed", path="/a"), BadSpec),
        (NoSpace("10 GiB are wanted", path="/disk"), Unavailable),
        (CorruptData("twice", path="/a"), Unavailable),
        (OSError(28, "No space left on device"), Unavailable),
        (KeyError("a bug"), InternalError),
    ],
)
def test_whose_fault_it_is(error: Exception, kind: type[YarnamError]) -> None:
    found = staging_error(error)
    assert type(found) is kind
    assert str(error).strip("'") in str(found)
