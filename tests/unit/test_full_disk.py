"""A disk without room at each write of client, agent and ApplicationMaster: nothing is lost.

Each scenario runs on a disk that is full from its first write on, from its second, and so on. It
either does without (and says so), or raises an error that names the disk; and the same work, once
there is room again, finds nothing there that is not whole.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hdfs_utils.backends.local import LocalFileSystem
from hdfs_utils.config import delegation_tokens, site_authority
from hdfs_utils.config.delegation_tokens import DelegationToken
from hdfs_utils.errors import HdfsError
from hdfs_utils.node_cache import CacheDisk, NodeStore, WantedFile
from hdfs_utils.transfer import get_tree
from tests.fakes.full_disk import FullDisk
from tests.unit.client.world import World, job_spec
from tests.unit.hdfs_utils.config.test_delegation_tokens import credentials
from yarnam.adapters.container_tokens import ContainerTokens
from yarnam.adapters.grpc.job_control import EventLog
from yarnam.adapters.zookeeper import session
from yarnam.agent.data.input_staging import staging_error
from yarnam.agent.entrypoint import set_up_log
from yarnam.agent.launch.launch_plan import plan_processes, write_members
from yarnam.agent.launch.log_files import append_note
from yarnam.agent.launch.stop_agreement import StopFile
from yarnam.agent.machine.agent_directives import Launch, ProcessLaunch
from yarnam.agent.machine.agent_state import AgentExit
from yarnam.agent.task_config import ContainerSettings, TaskJob
from yarnam.cli.containers import am_wiring
from yarnam.client.data.output_file import write_output
from yarnam.client.data.transfer_ends import transfer_errors
from yarnam.client.environments.package_installer import run_installer
from yarnam.client.environments.packed_environment import Recipe, build_environment
from yarnam.client.environments.runtime_archive import RuntimeSource, build_runtime
from yarnam.client.queues.apply_file import replace_file
from yarnam.client.submit.hdfs_store import no_progress
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import ShippedFile
from yarnam.core.model.outcomes import ExitKind
from yarnam.errors import DiskFull, ExitCode, InternalError, NoPermission, YarnamError
from yarnam.errors.full_disks import disk_full, full_disk_in, full_disk_named
from yarnam.wire.protocol import LOCAL_PAGE_URL_FILE

CODES = (errno.ENOSPC, errno.EDQUOT)
OLD = DelegationToken("HDFS_DELEGATION_TOKEN", "nn:8020", b"old", b"p")
NEW = DelegationToken("HDFS_DELEGATION_TOKEN", "nn:8020", b"new", b"password")


class Scenario(NamedTuple):
    """``run`` gets what ``prepare`` has returned, and returns what its work has made."""

    prepare: Callable[[Path], Any]
    run: Callable[[Any], object]
    least_writes: int
    is_done_without: bool = False
    """It never fails: the job does not depend on what it writes."""


def same(place: Path) -> Path:
    return place


# ---- the client --------------------------------------------------------------------------------


def packed(archive: Path) -> dict[str, bytes | None]:
    with tarfile.open(archive) as tar:
        return {
            one.name: stream.read() if (stream := tar.extractfile(one)) else None
            for one in tar.getmembers()
        }


def packages(place: Path) -> Path:
    for name in ("yarnam/__init__", "yarnam/_version", "yarnam/train/__init__", "yarnam/bad",
                 "setuptools/_distutils/__init__"):  # fmt: skip
        file = place / "src" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("print 1" if name.endswith("bad") else "VALUE = 1\n")
    return place


def runtime(place: Path) -> object:
    sources = tuple((name, place / "src" / name) for name in ("yarnam", "setuptools"))
    with full_disk_named(place):
        return packed(build_runtime(RuntimeSource("k", sources, ()), place / "cache" / "yarnam"))


def environment(place: Path) -> object:
    def fill(tree: Path, *_: object) -> None:
        (tree / "bin").mkdir()
        (tree / "bin" / "python").write_text("#!")

    cache = place / "cache" / "yarnam"
    with full_disk_named(place):
        (archive,) = build_environment(Recipe("k", fill), cache, lambda _: None, no_progress)
        return packed(archive)


def world_with_code(place: Path) -> World:
    (place / "code").mkdir()
    (place / "code" / "train.py").write_text("print(1)")
    (place / "scratch").mkdir()
    return World(place / "world")


def submit(world: World) -> object:
    place = world.folder.parent
    before, tempfile.tempdir = tempfile.tempdir, str(place / "scratch")
    try:
        world.client.submit(job_spec(files=(ShippedFile("code", str(place / "code")),)))
    except YarnamError:
        assert not world.left_on_hdfs()
        raise
    finally:
        assert not list((place / "scratch").iterdir())
        tempfile.tempdir = before
    return len(world.launcher.submitted), len(world.left_on_hdfs())


def earlier_output(place: Path) -> Path:
    (place / "out.json").write_text("earlier")
    return place / "out.json"


def output(path: Path) -> object:
    try:
        write_output(path, "later" * 5000)
    except YarnamError:
        assert path.read_text() == "earlier"
        raise
    finally:
        assert [one.name for one in path.parent.iterdir()] == [path.name]
    return path.read_text()


def new_output(place: Path) -> object:
    (place / "new.yaml").unlink(missing_ok=True)
    write_output(place / "new.yaml", "text", is_new=True)
    return (place / "new.yaml").read_text()


def allocations(place: Path) -> Path:
    (place / "new.xml").write_text("<new/>")
    (place / "fair-scheduler.xml").write_text("<old/>")
    return place


def apply_allocations(place: Path) -> object:
    target = place / "fair-scheduler.xml"
    try:
        replace_file(place / "new.xml", target)
    except YarnamError:
        assert target.read_text() == "<old/>"
        raise
    return target.read_text()


def remote_tree(place: Path) -> Path:
    source = place.with_name(f"{place.name}-remote")
    source.mkdir()
    for number in range(3):
        (source / f"part-{number}").write_bytes(bytes([number]) * 1000)
    return place


def download(place: Path) -> object:
    with transfer_errors("getting data"):
        source = str(place.with_name(f"{place.name}-remote"))
        get_tree(LocalFileSystem(), source, place / "got")
    return {one.name: one.read_bytes() for one in (place / "got").iterdir()}


# ---- the agent ---------------------------------------------------------------------------------


def settings(place: Path) -> ContainerSettings:
    return ContainerSettings(
        place, AskId(1, "worker", 0), "", "am:1", "container_1", "n1", "n1:1", "n1:2",
        place / "logs", "", "",
    )  # fmt: skip


JOB = TaskJob(
    name="j", user="ann", framework="command", runs_as="command", role="worker",
    command=("python", "x"), processes=1, gpus=0, port_labels=(), env=(), secrets=(),
    files=("code", "data.bin"), python=sys.executable, has_environment=False, has_inputs=False,
    is_staged=False, cache_max_bytes=0, readers=(), orphan_timeout_s=30.0, stop_grace_s=10.0,
    failure_grace_s=2.0, spool_limit_s=0.0,
)  # fmt: skip


def container(place: Path) -> Path:
    (place / "logs").mkdir()
    (place / "code").mkdir()
    (place / "code" / "train.py").touch()
    (place / "data.bin").touch()
    return place


def launch(place: Path) -> object:
    order = Launch(1, "worker", processes=(ProcessLaunch(),))
    ((plan,), directory) = plan_processes(settings(place), JOB, order, dict(os.environ), [], "")
    if plan.problem:
        assert plan.problem_kind is ExitKind.NOT_STARTED
        # The failure rules find a full disk by these words.
        raise DiskFull(plan.problem)
    return directory, sorted(one.name for one in directory.iterdir())


def members(place: Path) -> object:
    with suppress(FileNotFoundError):
        assert (place / ".yarnam-members").read_text() == "old\n"
    try:
        write_members(place, ["a1.worker.0:1"])
    except OSError as error:
        raise DiskFull(str(disk_full(error, place))) from error
    return (place / ".yarnam-members").read_text()


def stop_file(place: Path) -> object:
    path = place / ".yarnam-stop"
    assert not path.exists()
    stop = StopFile(path)
    try:
        stop.write("preempted", 10.0)
    except OSError as error:
        assert not path.exists(), "half an order"
        raise DiskFull(str(disk_full(error, place))) from error
    return json.loads(path.read_text())["reason"]


def agents_log(place: Path) -> object:
    root = logging.getLogger()
    before, raises = list(root.handlers), logging.raiseExceptions
    try:
        set_up_log(place / "logs" / "agent.log", logging.Formatter("%(message)s"))
        logging.getLogger("yarnam.agent").error("a line")
        append_note(place / "logs" / "worker-0.0.log", "a note")
    finally:
        for handler in set(root.handlers) - set(before):
            root.removeHandler(handler)
            with suppress(OSError):
                handler.close()
        logging.raiseExceptions = raises
    return None


def tokens(place: Path) -> Path:
    (place / "tokens").write_bytes(
        credentials((b"old", b"p", b"HDFS_DELEGATION_TOKEN", b"nn:8020"))
    )
    return place


def replaced_tokens(place: Path) -> object:
    held = ContainerTokens(str(place / "tokens"), [str(place)])
    try:
        held.replace([NEW.for_url()])
    except YarnamError as error:
        assert delegation_tokens.load(str(place / "tokens")) == (OLD,)
        raise DiskFull(str(error)) from error
    return delegation_tokens.load(str(place / "tokens"))


def cached_inputs(place: Path) -> object:
    source = place.with_name(f"{place.name}-remote")
    disk = CacheDisk(place / "container", place / "cache")
    fs = LocalFileSystem()
    wanted = [
        WantedFile(str(path), 1000, fs.stat(str(path)).mtime_ms, f"train/{path.name}")
        for path in sorted(source.iterdir())
    ]
    found: dict[str, Path] = {}
    for is_cached in (True, False):
        try:
            store = NodeStore([disk], cache_max_bytes=1 << 30, keep_free=0.0)
            found |= store.fetch(fs, wanted, is_cached=is_cached)
        except (OSError, HdfsError) as error:
            raise DiskFull(str(staging_error(error, [place]))) from error
    return {name: path.read_bytes() for name, path in found.items()}


# ---- the ApplicationMaster ---------------------------------------------------------------------


def events(place: Path) -> object:
    log = EventLog(max_bytes=4000, directory=str(place))
    for number in range(40):
        log.append([b"%d" % number * 50])
    first, lines = log.read(0)
    log.close()
    assert lines[-1] == b"39" * 50
    return first >= 0


def page_address(place: Path) -> object:
    before = Path.cwd()
    os.chdir(place)
    try:
        with suppress(InternalError):  # outside of a container Skein is away
            am_wiring._announce("n1", 80)
    finally:
        os.chdir(before)
    path = place / LOCAL_PAGE_URL_FILE
    assert not path.exists() or path.read_text() == "http://n1:80/"
    return None


def authority(place: Path) -> object:
    """ZooKeeper over TLS: kazoo wants the site's authorities in a file."""
    session._authority_file.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(place))
        patch.setattr(tempfile, "tempdir", str(place))
        patch.setattr(site_authority, "authority", lambda conf_dir: "-----BEGIN CERTIFICATE-----")
        try:
            with full_disk_named(place):
                path = session._authority_file()
        finally:
            session._authority_file.cache_clear()
            left = list(place.glob("*.pem"))
            for file in left:
                file.unlink()
            assert len(left) <= 1
    assert path is not None
    return len(left)


SCENARIOS = {
    "authority": Scenario(same, authority, 2),
    "runtime": Scenario(packages, runtime, 20),
    "environment": Scenario(same, environment, 5),
    "submit": Scenario(world_with_code, submit, 2),
    "output": Scenario(earlier_output, output, 3),
    "new output": Scenario(same, new_output, 3),
    "allocations": Scenario(allocations, apply_allocations, 4),
    "download": Scenario(remote_tree, download, 6),
    "launch": Scenario(container, launch, 5),
    "members": Scenario(same, members, 3),
    "stop file": Scenario(same, stop_file, 3),
    "agent's log": Scenario(container, agents_log, 2, is_done_without=True),
    "tokens": Scenario(tokens, replaced_tokens, 3),
    "inputs": Scenario(remote_tree, cached_inputs, 20),
    "events": Scenario(same, events, 20, is_done_without=True),
    "page": Scenario(same, page_address, 3, is_done_without=True),
}


@pytest.mark.parametrize("once", [False, True], ids=["stays-full", "full-once"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_at_each_write(name: str, once: bool, tmp_path: Path) -> None:
    scenario = SCENARIOS[name]
    number = 0
    whole = None
    while True:
        place = tmp_path / f"{number}"
        place.mkdir()
        state = scenario.prepare(place)
        code = CODES[number % len(CODES)]
        with FullDisk(place, number, once=once, code=code).installed() as disk:
            try:
                outcome = scenario.run(state)
            except DiskFull as error:
                outcome = error
        if number == 0:
            whole = outcome
            assert len(disk.operations) >= scenario.least_writes, disk.operations
        elif not disk.has_failed:
            break
        where = disk.operations[number - 1] if number else ""
        if isinstance(outcome, DiskFull):
            assert not scenario.is_done_without, outcome
            assert os.strerror(code) in outcome.message, outcome
            assert str(tmp_path) in outcome.message, outcome
            # There is room again.
            outcome = scenario.run(state)
        assert comparable(outcome, place) == comparable(whole, tmp_path / "0"), where
        number += 1


def comparable(outcome: object, place: Path) -> str:
    return repr(outcome).replace(str(place), "PLACE")


# ---- what the system says, and who says it -------------------------------------------------------


def test_a_write_names_no_file_so_its_places_are_named() -> None:
    error = OSError(errno.ENOSPC, "x")
    found = disk_full(error, "/a", "/b")
    assert found is not None
    assert found.message == "[Errno 28] No space left on device: /a or /b"
    assert (found.exit_code, found.retryable) == (ExitCode.UNAVAILABLE, True)


def test_an_error_of_ours_that_came_later_is_not_the_disk_s() -> None:
    def later() -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError:
            raise NoPermission("the cluster refuses this user")  # noqa: B904 - another matter

    with pytest.raises(NoPermission) as caught:
        later()
    assert disk_full(caught.value) is None


def test_a_cause_is_found_under_other_errors() -> None:
    cause = OSError(errno.EDQUOT, "x", "/from", None, "/to")
    wrapped = InternalError("cannot copy")
    wrapped.__cause__ = RuntimeError("y")
    wrapped.__cause__.__context__ = cause
    found = disk_full(wrapped)
    assert found is not None
    assert found.message == "[Errno 122] Disk quota exceeded: /to"
    wrapped.__cause__.__suppress_context__ = True
    assert disk_full(wrapped) is None


def test_shutil_s_list_and_tempfile_s_despair_are_full_disks(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "file").write_text("x")
    to = tmp_path / "full"
    to.mkdir()
    with FullDisk(to, 2).installed(), pytest.raises(shutil.Error) as listed:
        shutil.copytree(tmp_path / "from", to / "tree")
    found = disk_full(listed.value)
    assert found is not None
    assert "No space left on device" in found.message
    assert disk_full(FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"))
    assert disk_full(FileNotFoundError(2, "No such file or directory", "/x")) is None
    assert disk_full(shutil.Error([("a", "b", "[Errno 13] Permission denied")])) is None


@pytest.mark.parametrize(
    "said",
    [
        "Resolved 3\nerror: failed to write to `/c/x`: No space left on device (os error 28)\n",
        "OSError: [Errno 122] Disk quota exceeded: '/c/x'",
        "tar: /c/x: Cannot write: No space left on device",
    ],
)
def test_another_program_s_output(said: str) -> None:
    found = full_disk_in(said, "/place")
    assert found is not None
    assert "/c/x" in found.message
    assert full_disk_in("error: no such package") is None


def test_the_am_s_verdict_names_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NM_HOST", "n7")
    found = am_wiring._failure(OSError(errno.ENOSPC, "x", "events"))
    assert found.exit_code == ExitCode.UNAVAILABLE
    assert "disk on n7 is full: [Errno 28] No space left on device: events" in found.message
    assert "df -i" in found.hint


def test_a_place_that_an_installer_fills_is_not_the_user_s_mistake(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho 'No space left on device (os error 28)' >&2\nexit 2\n")
    tool.chmod(0o755)
    with pytest.raises(DiskFull):
        run_installer([str(tool)], tmp_path / "requirements.txt", [])


# ---- the disk of the output and of the logs ------------------------------------------------------

FULL = "/dev/full"


def child(code: str, *arguments: str, **streams: str) -> subprocess.CompletedProcess[str]:
    """A Python whose ``stdout`` or ``stderr`` goes to a full disk."""
    with ExitStack() as stack:
        opened = {
            name: stack.enter_context(Path(streams[name]).open("w"))
            if name in streams
            else subprocess.PIPE
            for name in ("stdout", "stderr")
        }
        return subprocess.run(
            [sys.executable, "-c", code, *arguments], stdin=subprocess.DEVNULL, text=True,
            timeout=60, check=False, **opened,
        )  # fmt: skip


def test_results_that_do_not_fit_are_an_error_of_the_disk() -> None:
    done = child("import sys; from yarnam.cli import main; sys.exit(main())", "spec", "schema",
                 stdout=FULL)  # fmt: skip
    assert done.returncode == ExitCode.UNAVAILABLE
    assert "No space left on device: /dev/stdout" in done.stderr
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


def test_notes_that_do_not_fit_cost_neither_the_result_nor_the_exit_code() -> None:
    code = (
        "import sys\nfrom yarnam.cli.rendering.console import print_line, print_note\n"
        "print_note('beside'); print_line('result')\n"
        "from yarnam.cli.shell import run\nsys.exit(run(['no-such-command']))"
    )
    done = child(code, stderr=FULL)
    assert done.stdout == "result\n"
    assert done.returncode == ExitCode.USAGE


def test_the_am_s_exit_code_survives_a_full_disk_of_logs() -> None:
    code = (
        "import os; os.environ.pop('CONTAINER_ID', None)\n"
        "from yarnam.cli.containers import am_process\n"
        "import yarnam.adapters.process_lifetime as life\n"
        "am_process.end_with_stdin = lambda: None\n"
        "am_process._leave(am_process.main())"
    )
    assert child(code, stderr=FULL).returncode == ExitCode.INTERNAL


def test_the_am_leaves_at_once_although_it_cannot_say_so() -> None:
    code = (
        "import time; from yarnam.adapters.process_lifetime import end_with_stdin\n"
        "end_with_stdin(); time.sleep(30)"
    )
    assert child(code, stderr=FULL).returncode == ExitCode.UNAVAILABLE


def test_the_agent_s_exit_code_survives_it_too(tmp_path: Path) -> None:
    code = (
        "import os, sys; os.chdir(sys.argv[1]); os.environ['YARNAM_ASK'] = 'a1.worker.0'\n"
        "from yarnam.cli.containers.agent_process import main; main()"
    )
    done = child(code, str(tmp_path), stderr=FULL)
    assert done.returncode == AgentExit.FAULT


# ---- a real disk ---------------------------------------------------------------------------------

REAL = """
import os, sys
from pathlib import Path
from dataclasses import replace
from tests.unit.client.world import World, job_spec
from yarnam.client import Client
from yarnam.errors import DiskFull

disk, folder = Path(sys.argv[1]), Path(sys.argv[2])
world = World(folder)
client = Client(site=replace(world.site, cache=disk / "cache" / "yarnam"))
try:
    client.submit(job_spec())
except DiskFull as error:
    print(error.message)
assert not world.left_on_hdfs() and not world.launcher.submitted
archives = [one for one in disk.rglob("*") if one.is_file()]
print("left:", archives)
"""


@pytest.mark.parametrize("limit", ["size=1m", "nr_inodes=60"])
def test_a_submit_on_a_small_disk(limit: str, tmp_path: Path) -> None:
    """A tmpfs of a mount namespace of its own: the kernel's own errors, of C programs too."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o {limit} none "$1" && shift && exec "$@"'
    alone = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, "-", str(disk)]
    with suppress(OSError):
        if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode == 0:
            done = subprocess.run(
                [*alone, sys.executable, "-c", REAL, str(disk), str(tmp_path / "world")],
                capture_output=True, text=True, check=False, timeout=120,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert "No space left on device" in done.stdout, done.stdout
            assert str(disk) in done.stdout
            assert "left: []" in done.stdout
            return
    pytest.skip("no tmpfs can be mounted here; /dev/full and the shim stand in for it")
