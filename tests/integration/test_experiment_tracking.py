"""What ``train.report`` is given, in MLflow and in TensorBoard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from hdfs_utils.backends.fsspec_adapter import HdfsUtilsFileSystem
from tests.integration.framework_venvs import framework_python
from tests.integration.submit_world import SubmitWorld
from yarnam.cli.jobs import tensorboard_command
from yarnam.web.http.url_token import UrlToken, new_secret

ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0

PROGRAM = """\
import os, sys, time
from yarnam import train
first, end = int(sys.argv[1]), int(sys.argv[2])
with train.tracking({"lr": 0.1, "steps": 8}):
    for step in range(first, end):
        train.report(step=step, loss=1 / (step + 1), **{"odd!name": step})
        time.sleep(1.05)  # of each second the newest value is sent
    if len(sys.argv) > 3:
        time.sleep(6)
        os._exit(1)
"""

BOARD = """\
import os, sys, time
os.environ["TENSORBOARD_LOGGING_DIR"] = os.environ["YARNAM_OUTPUT"] + "/events"
from yarnam import train
with train.tracking():
    for step in range(3):
        train.report(step=step, loss=1 / (step + 1))
        time.sleep(1.05)
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.2)
"""

RUNS = """\
import json, sys
from mlflow.tracking import MlflowClient
client = MlflowClient()
found = client.search_runs([client.get_experiment_by_name("digits").experiment_id])
print(json.dumps([
    {"name": run.info.run_name, "status": run.info.status, "params": run.data.params,
     "tags": run.data.tags,
     "loss": [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, "loss")],
     "odd": len(client.get_metric_history(run.info.run_id, "odd_name"))}
    for run in found
]))
"""


def run_program(python: Path | str, code: str, *arguments: str, **env: str) -> str:
    done = subprocess.run(
        [str(python), "-c", code, *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == (1 if "lost" in arguments else 0), done.stderr
    assert "yarnam: " not in done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_job_is_one_run_of_mlflow_over_its_attempts(tmp_path: Path) -> None:
    """The first attempt is lost after step 4; the second goes on from the checkpoint of step 2."""
    python = framework_python("mlflow")
    env = {
        "MLFLOW_TRACKING_URI": f"file://{tmp_path}/runs",
        "MLFLOW_EXPERIMENT_NAME": "digits",
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "YARNAM_APPLICATION_ID": "application_1_2",
        "YARNAM_JOB_NAME": "digits",
        "YARNAM_RANK": "0",
    }
    run_program(python, PROGRAM, "0", "5", "lost", **env)
    [run] = json.loads(run_program(python, RUNS, **env))
    assert (run["status"], len(run["loss"])) == ("RUNNING", 5)
    run_program(python, PROGRAM, "2", "8", **env, YARNAM_ATTEMPT="2")
    [run] = json.loads(run_program(python, RUNS, **env))
    assert run["loss"] == [[step, 1 / (step + 1)] for step in range(8)]
    assert run["odd"] == 8
    assert run["params"] == {"lr": "0.1", "steps": "8"}
    assert (run["name"], run["status"]) == ("digits", "FINISHED")
    assert run["tags"]["yarnam.application"] == "application_1_2"
    run_program(python, PROGRAM, "0", "2", **{**env, "YARNAM_APPLICATION_ID": "application_1_3"})
    assert len(json.loads(run_program(python, RUNS, **env))) == 2


@pytest.mark.long
def test_tensorboard_forgets_what_a_later_attempt_repeats(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    env = {"TENSORBOARD_LOGGING_DIR": str(tmp_path / "logs"), "YARNAM_RANK": "0"}
    run_program(sys.executable, PROGRAM, "0", "4", "lost", **env)
    run_program(sys.executable, PROGRAM, "2", "6", **env, YARNAM_ATTEMPT="2")
    events = EventAccumulator(str(tmp_path / "logs")).Reload()
    assert [one.step for one in events.Scalars("loss")] == list(range(6))
    assert "parameters" in str(events.Tags()["tensors"])


def test_tensorboard_reads_what_is_appended_through_hdfs_utils(tmp_path: Path) -> None:
    """By fsspec, which is how both sides reach HDFS; here with the back end of local files."""
    import fsspec
    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer

    from yarnam.train._tracking.event_files import EventFiles
    from yarnam.train._tracking.metric_point import Point

    class OnDisk(HdfsUtilsFileSystem):
        protocol = ("ondisk",)

        @staticmethod
        def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
            return {"uri": "file:///"}

        @classmethod
        def _strip_protocol(cls, path: Any) -> Any:
            return HdfsUtilsFileSystem._strip_protocol(path.replace("ondisk://", "file://"))

    fsspec.register_implementation("ondisk", OnDisk, clobber=True)
    shown = EventMultiplexer()
    files = EventFiles(f"ondisk://{tmp_path}/.job.1/attempt-1/events", {"lr": 0.1})
    for step in range(3):
        files.write([Point("loss", 1.0 / (step + 1), step, 1000.0 + step)])
        shown.AddRunsFromDirectory(f"ondisk://{tmp_path}/.job.1")
        shown.Reload()
        [run] = shown.Runs()
        assert run.endswith("events")
        assert [one.step for one in shown.Tensors(run, "loss")] == list(range(step + 1))
    files.close("FINISHED")


class Browser:
    """Opens the printed address, and keeps the cookie that it gets there."""

    def __init__(self, url: str) -> None:
        self._home = url.partition("?")[0]
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        self._opener.open(url, timeout=10).close()

    def get_json(self, path: str) -> Any:
        with self._opener.open(f"{self._home}{path}", timeout=10) as reply:
            return json.load(reply)


def new_token() -> UrlToken:
    return UrlToken(new_secret(), tensorboard_command.free_port(0))


def await_steps(browser: Browser, run: str, count: int) -> list[int]:
    """The steps of ``loss`` that TensorBoard shows for the run whose name ends so."""
    deadline = time.monotonic() + LIMIT_S
    shown: Any = None
    while time.monotonic() < deadline:
        try:
            shown = browser.get_json("data/plugin/scalars/tags")
            name = next((one for one in shown if one.endswith(run) and "loss" in shown[one]), None)
            if name is not None:
                query = urllib.parse.urlencode({"run": name, "tag": "loss"})
                found = browser.get_json(f"data/plugin/scalars/scalars?{query}")
                steps = [one[1] for one in found]
                if len(steps) >= count:
                    return steps
        except (OSError, urllib.error.URLError):
            pass  # It starts again when the outputs have moved.
        time.sleep(0.5)
    raise AssertionError(f"TensorBoard shows {shown}")


def as_nobody(url: str) -> str:
    """What another user of the machine gets."""
    code = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).status)"
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-I", "-c", code, url],
        user=65534, cwd="/", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="nobody else's program can be started")
def test_tensorboard_answers_its_own_user_alone(tmp_path: Path) -> None:
    token = new_token()
    with tensorboard_command._tensorboard(str(tmp_path), token, dict(os.environ)):
        url = token.url("127.0.0.1")
        assert Browser(url).get_json("data/logdir")["logdir"] == str(tmp_path)
        assert "403" in as_nobody(url), "the token alone lets nobody in"
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"http://127.0.0.1:{token.port}/data/logdir", timeout=10)


def test_tensorboard_runs_nothing_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who stands in a directory of shared data would run what others have put there."""
    for name in ("tensorboard", "json", "yarnam", "absl"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('planted')\n")
    monkeypatch.chdir(tmp_path)
    environ = {**os.environ, "PYTHONPATH": ""}
    with tensorboard_command._tensorboard(str(tmp_path), new_token(), environ) as process:
        assert process.poll() is None


def test_tensorboard_listens_for_as_long_as_the_block(tmp_path: Path) -> None:
    env = {"TENSORBOARD_LOGGING_DIR": str(tmp_path / "run"), "YARNAM_RANK": "0"}
    run_program(sys.executable, PROGRAM, "0", "2", **env)
    token = new_token()
    with tensorboard_command._tensorboard(str(tmp_path), token, dict(os.environ)) as process:
        assert await_steps(Browser(token.url("127.0.0.1")), "run", 2) == [0, 1]
    assert process.poll() is not None
    assert tensorboard_command.free_port(token.port) == token.port


@pytest.mark.yarn
@pytest.mark.hdfs
@pytest.mark.long
@pytest.mark.timeout(900)
def test_tensorboard_beside_a_job_and_over_its_outputs(
    submit_world: SubmitWorld, unique_name: Any
) -> None:
    """It shows the event files of a job that runs, and goes on when they become its outputs."""
    name = unique_name("board")
    program = submit_world.folder / "program.py"
    program.write_text(BOARD)
    go = submit_world.folder / "go"
    spec = submit_world.spec(
        name,
        ["python", "program.py", str(go)],
        files=[str(program)],
        environment={"python": sys.executable},
        data={"outputs": {"path": f"hdfs://{submit_world.home}/{name}"}},
    )
    application = submit_world.submit(spec)
    submit_world.await_state(application, "RUNNING", limit_s=150)
    with submit_world.start("tensorboard", application, "--port", "0", "--json") as board:
        try:
            assert board.stdout is not None
            line = board.stdout.readline()
            assert line, board.stderr.read() if board.stderr else ""
            told = json.loads(line)
            assert f"/.{name}.{application}" in told["logdir"]
            browser = Browser(told["url"])
            assert await_steps(browser, "events", 3) == [0, 1, 2]
            go.touch()
            submit_world.await_state(application, "SUCCEEDED", limit_s=150)
            assert submit_world.files.exists(f"{submit_world.home}/{name}/_SUCCESS")
            deadline = time.monotonic() + LIMIT_S
            while not get_location(browser).endswith(f"/{name}"):
                assert time.monotonic() < deadline, get_location(browser)
                time.sleep(0.5)
            assert await_steps(browser, "events", 3) == [0, 1, 2]
        finally:
            board.send_signal(2)
            assert board.wait(30) == 130
    submit_world.files.delete(f"{submit_world.home}/{name}", recursive=True)


def get_location(browser: Browser) -> str:
    """The directory that TensorBoard says it shows; what is wrong while it starts again."""
    try:
        return str(browser.get_json("data/environment")["data_location"])
    except OSError as error:
        return str(error)
