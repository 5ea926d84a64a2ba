"""Applications that go in by the ResourceManager's REST API, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import skein

from hdfs_utils.errors import HdfsError, NotSupported, Unavailable
from skein_specs import LocalizedFile, application_spec
from tests.fakes.files import MemoryFiles
from tests.fakes.launcher import FakeLauncher
from tests.unit.client.world import World
from tests.unit.skein_specs.test_application import RECORD
from yarnam.adapters.hdfs.small_files import SmallFiles
from yarnam.adapters.job_tokens import JobTokens
from yarnam.adapters.skein.driver import is_driver_wanted
from yarnam.adapters.yarn import rest_launcher
from yarnam.adapters.yarn.rest_launcher import RestLauncher
from yarnam.adapters.yarn.rest_parse import YarnApplication
from yarnam.core.model.job_spec import AmSpec
from yarnam.errors import BadConfig, BadSpec, NoPermission
from yarnam.errors import Unavailable as NoAnswer

ID = "application_1700000000000_0001"

AM = AmSpec(attempts_interval_s=60.0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(autouse=True)
def _small_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "skein.jar"
    jar.write_bytes(b"a jar")
    monkeypatch.setattr(rest_launcher, "skein_jar", lambda: jar)


def launcher(
    world: World,
    driver: FakeLauncher | None = None,
    tokens: Callable[[Sequence[str]], JobTokens] | None = None,
) -> RestLauncher:
    return RestLauncher(
        world.site.rm,
        world.site.quick,
        user=world.site.user,
        staging=world.site.paths.skein_staging,
        jars=world.site.paths.runtimes,
        class_path="",
        open_driver=lambda: driver or FakeLauncher(),
        must_be_own=world.site.path_owners().must_be_own,
        accept_limit_s=0.2,
        tokens=tokens,
    )


def spec(world: World) -> skein.ApplicationSpec:
    world.files.write_bytes("/user/me/job.json", b"{}", overwrite=True)
    return application_spec(
        RECORD,
        am_files={"job": LocalizedFile("hdfs://memory/user/me/job.json")},
        task_files={},
        security=skein.Security(cert_bytes=b"cert", key_bytes=b"key"),
    )


def becomes(world: World, state: str, diagnostics: str = "") -> None:
    """YARN's verdict, by the second look."""

    def look(app: YarnApplication) -> None:
        state_now = "SUBMITTED" if app.state == "NEW" else state
        world.rm.change(app.application, state=state_now, diagnostics=diagnostics)

    world.rm.on_look = look


def test_it_goes_in(world: World) -> None:
    becomes(world, "ACCEPTED")
    assert launcher(world).submit(spec(world), AM) == ID
    (context,) = world.rm.sent
    files = {e["key"]: e["value"] for e in context["am-container-spec"]["local-resources"]["entry"]}
    for entry in files.values():
        path = entry["resource"].removeprefix("hdfs://memory")
        status = world.files.stat(path)
        assert (entry["size"], entry["timestamp"]) == (status.length, status.mtime_ms)
    assert files[".skein.proto"]["resource"] == f"hdfs://memory/user/me/.skein/{ID}/.skein.proto"
    assert world.files.stat(f"/user/me/.skein/{ID}").permission == 0o700
    assert world.files.read_bytes(f"/user/me/.skein/{ID}/.yarnam-cluster") == world.rm.url.encode()
    # Once for all jobs.
    assert "/.yarnam/runtime/skein-" in files[".skein.jar"]["resource"]
    jars = [entry.path for entry in world.files.list("/user/me/.yarnam/runtime")]
    launcher(world).submit(spec(world), AM)
    assert [entry.path for entry in world.files.list("/user/me/.yarnam/runtime")] == jars


def test_a_secure_sites_tokens_go_with_it(world: World) -> None:
    becomes(world, "ACCEPTED")
    tokens = JobTokens({"10.0.0.1:8020": "CWFsaWNl"}, 1e9)
    asked: list[str] = []

    def give(file_systems: Sequence[str]) -> JobTokens:
        asked.extend(file_systems)
        return tokens

    with_tokens = launcher(world, tokens=give)
    assert with_tokens.tokens_end_s() is None
    application = spec(world)
    application.file_systems = ["hdfs://elsewhere"]
    with_tokens.submit(application, AM)
    assert asked == ["hdfs://elsewhere"]
    (context,) = world.rm.sent
    entry = {"key": "10.0.0.1:8020", "value": "CWFsaWNl"}
    assert context["am-container-spec"]["credentials"] == {"tokens": {"entry": [entry]}}
    assert with_tokens.tokens_end_s() == 1e9
    assert "CWFsaWNl" not in repr(tokens)


def test_without_tokens_nothing_is_sent(world: World) -> None:
    def refused(_: Sequence[str]) -> JobTokens:
        raise NoPermission("no ticket")

    with pytest.raises(NoPermission, match="no ticket"):
        launcher(world, tokens=refused).submit(spec(world), AM)
    assert world.rm.sent == []
    assert not world.files.exists(f"/user/me/.skein/{ID}")


def test_a_lost_answer_is_looked_for(world: World) -> None:
    becomes(world, "RUNNING")
    world.rm.answers_submit = False
    assert launcher(world).submit(spec(world), AM) == ID
    assert world.rm.killed == []


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("org.apache.hadoop.security.AccessControlException: me cannot submit", NoPermission),
        ("application rejected: unknown queue root.nope", BadSpec),
        ("the state store is full", NoAnswer),
    ],
)
def test_what_yarn_refuses_is_taken_back(world: World, said: str, error: type[Exception]) -> None:
    becomes(world, "FAILED", said)
    with pytest.raises(error, match=said.rpartition(": ")[2]):
        launcher(world).submit(spec(world), AM)
    assert not world.files.exists(f"/user/me/.skein/{ID}")


def test_yarn_that_never_decides(world: World) -> None:
    becomes(world, "SUBMITTED")
    with pytest.raises(NoAnswer, match=f"not accepted {ID} within 0.2 s .it is SUBMITTED"):
        launcher(world).submit(spec(world), AM)
    assert world.rm.killed == [ID]
    assert not world.files.exists(f"/user/me/.skein/{ID}")


def test_a_resource_manager_that_restarts_in_between(world: World) -> None:
    looks = []

    def look(app: YarnApplication) -> None:
        looks.append(app)
        if len(looks) < 3:
            raise NoAnswer("no answer from the ResourceManager")
        world.rm.change(app.application, state="ACCEPTED")

    world.rm.on_look = look
    assert launcher(world).submit(spec(world), AM) == ID
    assert world.rm.killed == []


def test_a_resource_manager_that_does_not_come_back(world: World) -> None:
    def look(app: YarnApplication) -> None:
        raise NoAnswer("no answer from the ResourceManager")

    world.rm.on_look = look
    with pytest.raises(NoAnswer, match="no answer from the ResourceManager"):
        launcher(world).submit(spec(world), AM)
    assert not world.files.exists(f"/user/me/.skein/{ID}")


def test_a_way_that_there_is_not() -> None:
    with pytest.raises(BadConfig, match="YARNAM_SUBMIT=jdbc is not a way"):
        is_driver_wanted({"YARNAM_SUBMIT": "jdbc"})


def test_ctrl_c_takes_it_back(world: World) -> None:
    def interrupt(operation: str, path: str) -> None:
        if path.endswith(".skein.proto"):
            raise KeyboardInterrupt

    made = spec(world)
    world.files.fail = interrupt
    with pytest.raises(KeyboardInterrupt):
        launcher(world).submit(made, AM)
    assert world.rm.sent == []
    assert not world.files.exists(f"/user/me/.skein/{ID}")


def test_the_driver_where_the_rest_api_is_closed(world: World) -> None:
    world.rm.takes_by_http = False
    driver = FakeLauncher()
    closed = launcher(world, driver)
    made = spec(world)
    assert closed.submit(made, AM)
    assert driver.submitted == [made]
    assert closed.wait() == "the fake is ready"
    closed.close()
    assert driver.closed.is_set()


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [({}, False), ({"YARNAM_SUBMIT": "rest"}, False), ({"YARNAM_SUBMIT": "Driver"}, True)],
)
def test_when_the_driver_is_wanted(environ: dict[str, str], wanted: bool) -> None:
    assert is_driver_wanted(environ) is wanted


class Web(MemoryFiles):
    """The same files over HTTP, which answers or not; what it was asked to write."""

    def __init__(self, files: MemoryFiles) -> None:
        super().__init__()
        self._nodes = files._nodes
        self.failure: HdfsError | None = None
        self.late: list[tuple[str, Any]] = []

    def write_bytes(self, path: str, data: Any, overwrite: bool = False) -> None:
        self.late.append((path, data))
        if self.failure is not None:
            raise self.failure
        super().write_bytes(path, data, overwrite)


@pytest.mark.parametrize("failure", [Unavailable("refused"), NotSupported("HTTP 404")])
def test_small_files_by_http_until_it_fails(failure: HdfsError) -> None:
    native = MemoryFiles()
    native.mkdirs("/d")
    web = Web(native)
    opened = []

    def open_web() -> MemoryFiles:
        opened.append(web)
        return web

    quick = SmallFiles(native, open_web)
    quick.put("/d/a", b"1")
    quick.put("hdfs://memory/d/a", b"2")
    assert native.read_bytes("/d/a") == b"2"
    assert len(web.late) == 2
    web.failure = failure
    quick.put("/d/b", b"3")
    web.failure = None
    quick.put("/d/b", b"4")
    assert native.read_bytes("/d/b") == b"4"
    assert len(web.late) == 3
    assert len(opened) == 1
    assert [s.path for s in native.list("/d")] == ["/d/a", "/d/b"]


def test_a_request_that_is_carried_out_after_it_was_given_up_on_changes_no_file(
    world: World,
) -> None:
    """YARN was told when each file was modified, and fails the application where that changes."""
    web = Web(world.files)
    web.failure = Unavailable("no answer within 4 s", outcome_unknown=True)
    quick = SmallFiles(world.files, lambda: web)
    quick.put("/user/me/hconf.zip", b"conf")
    told = world.files.stat("/user/me/hconf.zip")
    for path, data in web.late:
        world.files.write_bytes(path, data, overwrite=True)
    assert world.files.stat("/user/me/hconf.zip") == told
    assert world.files.read_bytes("/user/me/hconf.zip") == b"conf"


def test_small_files_where_http_is_not_tried() -> None:
    native = MemoryFiles()
    SmallFiles(native).put("/a", b"1")
    assert native.read_bytes("/a") == b"1"
