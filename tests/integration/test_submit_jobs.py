"""Jobs from submit to their end on the real cluster: output, exit codes, logs, kill, Ctrl-C."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import yarnam
from tests.integration.submit_world import SubmitWorld, finish, interrupt, until
from yarnam.core.model.job_status import JobState
from yarnam.errors import UserFailed

if TYPE_CHECKING:
    from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.slow, pytest.mark.timeout(400)]

FOREVER = ["/bin/sh", "-c", "echo started; exec sleep 600"]


@pytest.fixture
def world(
    cluster: EmbeddedCluster,
    cluster_env: dict[str, str],
    no_leftovers: None,
    tmp_path: Path,
) -> Iterator[SubmitWorld]:
    world = SubmitWorld(tmp_path, cluster_env, cluster.conf_dir)
    before = {app.application for app in world.rm.applications(user=world.user)}
    yield world
    names = {Path(spec).stem for spec in tmp_path.glob("*.yaml")}
    for app in world.rm.applications(user=world.user):
        if app.application not in before and app.name in names and not app.is_over:
            world.rm.kill(app.application)
    assert world.no_process_left()


def is_gone(world: SubmitWorld, application: str) -> bool:
    app = world.rm.application(application)
    assert app is not None
    # Skein's AM removes its staging directory after it has told YARN that all is over.
    deadline = time.monotonic() + SETTLE_S
    while world.files.exists(f"{world.home}/.skein/{application}"):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return app.is_over


SETTLE_S = 10.0


# ---- a job that works ----------------------------------------------------------------------------

TWO_TASKS = {
    "gpus": None,
    "memory_per_gpu": None,
    "vcores_per_gpu": None,
    "roles": {"worker": {"tasks": 2, "gpus": 2, "memory": "1 GiB", "vcores": 1}},
}
HELLO = (
    "echo hello from $YARNAM_RANK of $YARNAM_WORLD_SIZE: $TOKEN; test -f work.txt && cat work.txt"
)


@pytest.mark.shapes
def test_a_job_from_submit_to_its_logs(world: SubmitWorld, unique_name: Any) -> None:
    (world.folder / "work.txt").write_text("shipped\n")
    world.environ["TOKEN"] = "s3cret-value"
    spec = world.spec(
        unique_name("hello"), HELLO, files=["work.txt"], env={"TOKEN": {"from": "client"}},
        **TWO_TASKS,
    )  # fmt: skip
    done = world.run("submit", spec, "--watch", "--json")
    assert done.code == 0, done.err
    first, *statuses = done.lines
    application = first["application"]
    states = list(dict.fromkeys(status["state"] for status in statuses))
    assert states[0] == "QUEUED"
    assert states[-1] == "SUCCEEDED"
    # The containers come so soon that a look may miss ACQUIRING; never is it RUNNING before.
    expected = ("QUEUED", "ACQUIRING", "LAUNCHING", "RUNNING", "STORING", "SUCCEEDED")
    assert states == sorted(states, key=expected.index)
    assert statuses[-1]["verdict"]["exit_code"] == 0
    # When the command ends, YARN has everything back.
    assert is_gone(world, application)

    listed = world.run("ps", "--all", "--json").json
    assert [job["state"] for job in listed if job["application"] == application] == ["SUCCEEDED"]
    out = world.output(application)
    for rank in range(4):
        assert f"hello from {rank} of 4: s3cret-value" in out
    assert out.count("shipped") == 4
    if world.has_logs:
        one = world.run("logs", application, "--rank", "3", "--tail", "1")
        assert one.out == "shipped\n"
        assert "hello from 2" in world.run("logs", application, "--task", "worker-1").out
        assert "of the ApplicationMaster of" in world.run("logs", application, "--am").out
        assert world.run("logs", application, "--agent").out
    story = world.run("events", application).out
    assert story.index("ApplicationMaster started") < story.index("granted")
    assert story.index("granted") < story.index("all processes started")

    directory = first["directory"]
    for entry in world.files.walk(directory):
        if not entry.is_dir:
            assert b"s3cret-value" not in world.files.read_bytes(entry.path), entry.path
    assert "s3cret-value" not in done.out + done.err


@pytest.mark.long
def test_the_python_client_does_what_the_command_does(
    world: SubmitWorld, unique_name: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in world.environ.items():
        monkeypatch.setenv(name, value)
    name = unique_name("api")
    spec = {
        "version": 1, "name": name, "queue": world.queue, "gpus": 1, "memory_per_gpu": "512 MiB",
        "vcores_per_gpu": 1, "command": "echo from python; exit 3",
    }  # fmt: skip
    with yarnam.Client() as client:
        assert client.plan(spec).plan.rungs
        job = client.submit(spec)
        assert client.job(name).id == job.id
        seen = list(job.watch())
        assert seen[-1].state is JobState.FAILED
        verdict = job.wait(timeout_s=10)
        assert verdict.exit_code == 90
        with pytest.raises(UserFailed):
            job.wait(raise_on_failure=True)
        assert b"from python\n" in b"".join(piece.data for piece in job.logs("worker-0"))
        assert job.events()
        assert job.kill().state is JobState.FAILED  # over already: nothing changes
        assert job.status().state is JobState.FAILED


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "told"),
    [
        pytest.param("echo oh no; exit 3", "exited with code 3", id="exit"),
        pytest.param("kill -SEGV $$", "SIGSEGV", id="signal"),
        pytest.param(["no-such-program"], "no-such-program", id="not-found"),
    ],
)
def test_the_users_own_fault(world: SubmitWorld, unique_name: Any, command: Any, told: str) -> None:
    done = world.run("submit", world.spec(unique_name("fault"), command), "--watch")
    assert done.code == 90
    assert "FAILED" in done.out
    assert told in done.out
    assert "yarnam logs application_" in done.out


@pytest.mark.long
def test_garbage_and_endless_lines_arrive_unharmed(world: SubmitWorld, unique_name: Any) -> None:
    code = (
        "import sys; out = sys.stdout.buffer; out.write(bytes(range(256)) * 40 + b'\\n');"
        " out.write(b'x' * 3_000_000 + b'\\n'); out.write(b'end\\n')"
    )
    spec = world.spec(unique_name("garbage"), ["python3", "-c", code])
    application = world.submit(spec)
    world.await_state(application, "SUCCEEDED", limit_s=120)
    with subprocess.Popen(
        [*_yarnam(world), "logs", application, "--rank", "0"],
        env=world.environ, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        out = process.stdout.read()
    lines = bytes(range(256)) * 40 + b"\n" + b"x" * 3_000_000 + b"\nend\n"
    # A line without an end is shown in parts.
    assert out.replace(b"\n", b"") == lines.replace(b"\n", b"")
    assert len(out) - len(lines) < 100


def _yarnam(world: SubmitWorld) -> list[str]:
    from tests.integration.submit_world import BIN

    return [str(BIN / "yarnam")]


@pytest.mark.long
def test_logs_are_live(world: SubmitWorld, unique_name: Any) -> None:
    command = "echo first; sleep 4; echo second; sleep 300"
    application = world.submit(world.spec(unique_name("live"), command))
    world.await_state(application, "RUNNING", limit_s=120)
    with world.start("logs", application, "--follow", "--rank", "0") as process:
        assert process.stdout is not None
        began = time.monotonic()
        until(iter(process.stdout), "first")
        until(iter(process.stdout), "second")
        assert time.monotonic() - began < 60
        assert "ApplicationMaster of" in world.run("logs", application, "--am").out
        assert world.run("kill", application).code == 0
        assert finish(process, began).code == 0


# ---- the end by others ---------------------------------------------------------------------------


def kill_and_check(world: SubmitWorld, application: str) -> None:
    done = world.run("kill", application, "--reason", "test")
    assert done.code == 0, done.err
    assert "CANCELLED" in done.out
    assert is_gone(world, application)
    watched = world.run("watch", application)
    assert watched.code == 93
    assert "test" in watched.out


def test_kill_before_the_am_runs(world: SubmitWorld, unique_name: Any) -> None:
    kill_and_check(world, world.submit(world.spec(unique_name("early"), FOREVER)))


@pytest.mark.long
def test_kill_while_acquiring(world: SubmitWorld, unique_name: Any) -> None:
    """A gang that cannot stand, as another job holds half of what it needs; it asks all the same
    and holds the other half."""
    holder = world.submit(world.spec(unique_name("holder"), FOREVER), "-q", "root.small")
    world.await_state(holder, "RUNNING", limit_s=120)
    roles = {"worker": {"tasks": 2, "gpus": 1, "memory": "512 MiB", "vcores": 1}}
    spec = world.spec(
        unique_name("waiting"), FOREVER, gpus=None, memory_per_gpu=None, vcores_per_gpu=None,
        roles=roles, gang={"look_before_ask": False},
    )  # fmt: skip
    waiting = world.submit(spec, "-q", "root.small")
    found = world.await_state(waiting, "ACQUIRING", limit_s=120)
    assert found["granted"] < found["asked"] == 2
    kill_and_check(world, waiting)
    kill_and_check(world, holder)


@pytest.mark.long
def test_kill_while_looking_for_room(world: SubmitWorld, unique_name: Any) -> None:
    holder = world.submit(world.spec(unique_name("holder"), FOREVER, gpus=2), "-q", "root.small")
    world.await_state(holder, "RUNNING", limit_s=120)
    waiting = world.submit(world.spec(unique_name("waiting"), FOREVER, gpus=2), "-q", "root.small")
    deadline = time.monotonic() + 120
    while (
        "waiting for free GPUs"
        not in (found := world.run("status", waiting, "--json").json)["reason"]
    ):
        assert time.monotonic() < deadline, found["reason"]
        time.sleep(0.2)
    assert found["state"] == "QUEUED"
    kill_and_check(world, waiting)
    kill_and_check(world, holder)


def test_kill_while_running(world: SubmitWorld, unique_name: Any) -> None:
    application = world.submit(world.spec(unique_name("running"), FOREVER, gpus=2))
    world.await_state(application, "RUNNING", limit_s=120)
    kill_and_check(world, application)
    again = world.run("kill", application)
    assert again.code == 0
    assert "was already finished: CANCELLED" in again.out


@pytest.mark.long
def test_killed_through_yarn(world: SubmitWorld, unique_name: Any) -> None:
    application = world.submit(world.spec(unique_name("admin"), FOREVER))
    world.await_state(application, "RUNNING", limit_s=120)
    world.rm.kill(application)
    watched = world.run("watch", application)
    assert watched.code == 93
    assert "killed by YARN" in watched.out
    assert is_gone(world, application)


# ---- Ctrl-C --------------------------------------------------------------------------------------


@pytest.mark.long
def test_ctrl_c_on_watch_leaves_the_job_alone(world: SubmitWorld, unique_name: Any) -> None:
    application = world.submit(world.spec(unique_name("watched"), FOREVER))
    with world.start("watch", application) as process:
        assert process.stdout is not None
        began = time.monotonic()
        until(iter(process.stdout), "RUNNING")
        interrupt(process)
        done = finish(process, began)
    assert done.code == 130
    assert f"yarnam kill {application}" in done.err
    assert world.run("status", application, "--json").json["state"] == "RUNNING"
    kill_and_check(world, application)


@pytest.mark.parametrize("moment", ["Checking the job", "Staging on HDFS", "Submitting to YARN"])
def test_ctrl_c_on_submit_leaves_nothing(world: SubmitWorld, unique_name: Any, moment: str) -> None:
    name = unique_name("interrupted")
    spec = world.spec(name, FOREVER)
    with world.start("submit", spec, "--detach") as process:
        assert process.stderr is not None
        began = time.monotonic()
        until(iter(process.stderr), moment)
        time.sleep(0.02)
        interrupt(process)
        done = finish(process, began)
    if done.out.strip():
        # Ctrl-C came after the last moment at which it could stop anything.
        kill_and_check(world, done.out.strip())
        return
    assert done.code == 130
    assert all(app.is_over for app in world.rm.applications(user=world.user) if app.name == name)
    for entry in world.files.list(f"{world.home}/.yarnam/jobs"):
        record = f"{entry.path}/job.json"
        assert not world.files.exists(record) or name.encode() not in world.files.read_bytes(record)
    assert world.no_process_left()


@pytest.mark.long
def test_two_submits_at_once(world: SubmitWorld, unique_name: Any) -> None:
    specs = [world.spec(unique_name("twin"), "echo ok") for _ in range(2)]
    began = time.monotonic()
    processes = [world.start("submit", spec, "--watch") for spec in specs]
    for process in processes:
        with process:
            done = finish(process, began)
        assert done.code == 0, done.err
