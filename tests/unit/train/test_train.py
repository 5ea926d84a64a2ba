"""The training SDK: neutral outside a job, light, and never in the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.unit.train.sdk_settings import set_sdk
from yarnam import train
from yarnam.agent.launch.stop_agreement import StopFile
from yarnam.agent.metrics_inbox import Sample, step_file, with_newest_step
from yarnam.train._job import stop
from yarnam.train._reports import reporting
from yarnam.train._reports.step_times import StepTimes

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("YARNAM_"):
            monkeypatch.delenv(name)


def run_python(code: str, python: str = sys.executable, argument: str = "", **env: str) -> str:
    process = subprocess.run(
        [python, "-c", code, argument],
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_outside_a_job_everything_is_neutral() -> None:
    assert not train.is_in_job()
    assert (train.rank(), train.world_size(), train.local_rank(), train.attempt()) == (0, 1, 0, 1)
    assert train.is_chief()
    assert train.checkpoint_directory() is None
    assert train.checkpoint_directory("/tmp/ckpt") == "/tmp/ckpt"
    assert train.checkpoint_keep() == 3
    assert train.input("digits", "/data") == "/data"
    assert train.initialize_jax() is False
    train.report(step=1, loss=0.5)


def test_inside_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    env = {
        "YARNAM_RANK": "3",
        "YARNAM_WORLD_SIZE": "8",
        "YARNAM_LOCAL_RANK": "1",
        "YARNAM_ATTEMPT": "2",
        "YARNAM_CHECKPOINT_DIR": "hdfs://nn/c",
        "YARNAM_SDK": json.dumps({"checkpoint": {"keep": 5}}),
        "YARNAM_OUTPUT": "hdfs://nn/o",
        "YARNAM_INPUT_TRAIN_SET": "hdfs://nn/d",
    }
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert train.is_in_job()
    assert (train.rank(), train.world_size(), train.local_rank(), train.attempt()) == (3, 8, 1, 2)
    assert not train.is_chief()
    assert train.checkpoint_directory("/tmp/c") == "hdfs://nn/c"
    assert train.checkpoint_keep() == 5
    assert train.output_directory() == "hdfs://nn/o"
    assert train.input("train-set") == "hdfs://nn/d"
    with pytest.raises(KeyError, match="no data input 'trainset'; it has: train_set"):
        train.input("trainset")


def test_a_report_reaches_the_agents_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind("\0yarnam-test-report")
        # Of a process that has reported nothing before.
        for name, value in (
            ("_of_steps", {}),
            ("_of_checkpoints", {}),
            ("_of_size", {}),
            ("of_process", StepTimes()),
        ):
            monkeypatch.setattr(reporting, name, value)
        set_sdk(monkeypatch, metrics_socket="@yarnam-test-report")
        monkeypatch.setenv("YARNAM_LOCAL_RANK", "2")
        monkeypatch.setattr(reporting, "of_process", StepTimes())
        monkeypatch.setattr(reporting, "_of_steps", {})
        train.report(step=7, total_steps=10, loss=0.25, lr="1e-3", note=object(), acc=True)
        said = json.loads(agent.recv(65536))
    assert said["local_rank"] == 2
    assert (said["step"], said["total_steps"]) == (7, 10)
    assert said["values"] == {"loss": 0.25, "lr": 0.001, "acc": 1.0}
    assert abs(said["at_s"] - time.time()) < 5


def test_a_process_says_that_it_is_ready_and_goes_on_saying_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reporting, "_is_ready", False)
    opened: dict[int, socket.socket] = {}
    monkeypatch.setattr(reporting, "_open", opened)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.settimeout(10)
        agent.bind("\0yarnam-test-ready")
        set_sdk(monkeypatch, metrics_socket="@yarnam-test-ready")
        train.report(step=1)
        train.ready()
        train.report(step=2)
        told = [json.loads(agent.recv(4096))["ready"] for _ in range(3)]
        opened[os.getpid()].close()
    assert told == [False, True, True]


OFTEN = """
import os, socket, sys
from yarnam import train
from yarnam.train._reports.reporting import report_restored
os.environ["YARNAM_STOP_FILE"] = sys.argv[1]
os.environ["YARNAM_SDK"] = '{"metrics_socket": "@yarnam-test-often"}'
for step in range(1, 100):
    train.report(step=step, loss=1.0 / step)
print(open(sys.argv[1] + ".0.step", "rb").read().hex())
child = os.fork()
if child == 0:
    train.report(step=1000)  # a data loader's
    os._exit(0)
os.waitpid(child, 0)
with train.pause("evaluation"):
    train.report(step=100, loss=0.5)
report_restored(7)
train.report(step=8, loss=0.25)
"""


def test_reports_in_quick_succession_wake_the_agent_seldom(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.settimeout(10)
        agent.bind("\0yarnam-test-often")
        done = run_python(OFTEN, argument=str(tmp_path / "stop"))
        agent.setblocking(False)
        told = []
        with suppress(BlockingIOError):
            while True:
                told.append(json.loads(agent.recv(4096)))
    step, at_s = struct.unpack("<qd", bytes.fromhex(done))
    assert step == 99, "the newest is where the agent finds it"
    assert abs(at_s - time.time()) < 60
    steps = [(one["step"], one["pause"], one["values"].get("loss")) for one in told]
    assert steps == [
        (1, "", 1.0), (1000, "", None), (99, "evaluation", 1.0 / 99), (100, "", 0.5), (7, "", None),
        (8, "", 0.25),
    ]  # fmt: skip


BUSY = """
import os, struct, sys, time
from yarnam import train
os.environ["YARNAM_STOP_FILE"] = sys.argv[1]
os.environ["YARNAM_SDK"] = '{"metrics_socket": "@yarnam-test-busy"}'
train.report(step=1)
for _ in range(1000):
    train.ready()
time.sleep(0.3)
train.report(step=2)
with open(sys.argv[1] + ".0.step", "rb") as file:
    print(struct.unpack("<qd", file.read())[0])
"""


def test_the_step_of_a_report_that_a_busy_agent_does_not_take_is_not_lost(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind("\0yarnam-test-busy")
        assert run_python(BUSY, argument=str(tmp_path / "stop")) == "2\n"


def test_a_written_step_is_newer_than_the_report_or_nothing(tmp_path: Path) -> None:
    sample = Sample(5.0, 3, 10, (("loss", 1.0),), is_ready=True)
    path = step_file(tmp_path / "stop", 0)
    assert with_newest_step(sample, tmp_path / "stop", 0) is None
    for content, step in (
        (struct.pack("<qd", 9, 6.0), 9),
        (struct.pack("<qd", 9, 5.0), None),
        (struct.pack("<qd", 9, float("nan")), None),
        (struct.pack("<qd", -(2**63), 6.0), None),
        (b"short", None),
    ):
        path.write_bytes(content)
        found = with_newest_step(sample, tmp_path / "stop", 0)
        assert found == (sample._replace(at_s=6.0, step=9) if step else None)
    path.write_bytes(struct.pack("<qd", 9, 6.0))
    assert with_newest_step(None, tmp_path / "stop", 0) == Sample(6.0, 9, None, ())


def test_reports_never_block_or_raise() -> None:
    code = (
        "import os, socket, time\n"
        "from yarnam import train\n"
        "agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "agent.bind('\\0yarnam-test-full')\n"
        """os.environ['YARNAM_SDK'] = '{"metrics_socket": "@yarnam-test-full"}'\n"""
        "start = time.monotonic()\n"
        "for step in range(20000): train.report(step=step, loss=1.0)\n"
        "each = (time.monotonic() - start) / 20000\n"
        "agent.close()\n"
        "train.report(step='no number')\n"
        "train.report(loss=1.0)\n"
        "print(each)\n"
    )
    each_s = float(run_python(code))
    print(f"{each_s * 1e6:.0f} us per report")
    assert each_s < 1e-3


def test_stop_file_and_signal(tmp_path: Path) -> None:
    code = (
        "import os, signal, time\n"
        "seen = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: seen.append('previous'))\n"
        "from yarnam import train\n"
        "assert not train.should_stop()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "assert train.should_stop() and seen == ['previous']\n"
        "print('alive')\n"
    )
    assert run_python(code) == "alive\n"
    code = (
        "import pathlib, time\n"
        "from yarnam import train\n"
        "assert not train.should_stop()\n"
        f"pathlib.Path({str(tmp_path / 'stop')!r}).touch()\n"
        "time.sleep(0.25)\n"
        "assert train.should_stop()\n"
        "assert train.should_stop()\n"
        "print('told')\n"
    )
    assert run_python(code, YARNAM_STOP_FILE=str(tmp_path / "stop")) == "told\n"


def test_a_stop_request_says_why_and_how_long_there_is(tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    StopFile(stop).write("2 -> 4 tasks", 30.0)
    code = (
        "from yarnam import train\n"
        "asked = train.stop_request()\n"
        "assert asked.reason == '2 -> 4 tasks', asked\n"
        "assert 0 < asked.left_s() <= 30, asked\n"
        "print('told')\n"
    )
    assert run_python(code, YARNAM_STOP_FILE=str(stop)) == "told\n"
    assert "told" in run_python(
        "from yarnam import train; assert train.stop_request() is None; print('told')",
        YARNAM_STOP_FILE=str(tmp_path / "none"),
    )


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"reason": 1, "grace_s": "x"}', "\xff"])
def test_a_stop_file_of_another_make_still_asks_to_stop(tmp_path: Path, content: str) -> None:
    stop = tmp_path / "stop"
    stop.write_bytes(content.encode("latin-1"))
    code = (
        "from yarnam import train\n"
        "asked = train.stop_request()\n"
        "assert asked.reason == '' and asked.left_s() == float('inf'), asked\n"
    )
    run_python(code, YARNAM_STOP_FILE=str(stop))


def test_the_first_stop_file_stands(tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    asks = StopFile(stop)
    asks.write("first", 30.0)
    asks.write("second", 5.0)
    assert json.loads(stop.read_text())["reason"] == "first"
    assert list(tmp_path.iterdir()) == [stop]


def test_should_stop_off_the_main_thread_installs_nothing() -> None:
    before = signal.getsignal(signal.SIGTERM)
    watch = stop._Watch()
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(watch.poll()))
    thread.start()
    thread.join()
    assert answers == [False]
    assert signal.getsignal(signal.SIGTERM) is before


def test_it_loads_the_standard_library_only_and_nothing_else_of_yarnam() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "import yarnam.train\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names) - {'yarnam'}),"
        " sorted(n for n in sys.modules if n.startswith('yarnam.') and 'train' not in n))\n"
    )
    assert run_python(code, PYTHONNOUSERSITE="1").strip() == "[] ['yarnam._version']"


OLDEST = shutil.which("python3.8")


def test_it_is_written_in_the_oldest_python_it_promises() -> None:
    """Where python3.8 is at hand it runs; everywhere its grammar is checked."""
    import ast

    for path in (ROOT / "yarnam" / "train").glob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 8))
    code = (
        "from yarnam import train; train.report(step=1); print(train.rank(), train.should_stop())"
    )
    works = OLDEST and subprocess.run([OLDEST, "-c", ""], check=False).returncode == 0
    assert run_python(code, OLDEST if works and OLDEST else sys.executable) == "0 False\n"


def test_a_step_file_of_any_size_is_read_no_further_than_a_step(tmp_path: Path) -> None:
    """The training writes it, and the agent's memory is counted."""
    with step_file(tmp_path / "stop", 0).open("wb") as file:
        file.truncate(1 << 36)  # sparse
    assert with_newest_step(None, tmp_path / "stop", 0) is None


RAISES = """
import atexit, os, sys
from yarnam import train
train.report(step=1)
atexit.register(lambda: train._reports.reporting._report_pause())
if sys.argv[1] == "goes on":
    sys.excepthook(ValueError, ValueError("logged"), None)
    train.report(step=2, restored_step=1)
else:
    raise ValueError("not caught")
"""


@pytest.mark.parametrize(
    ("how", "told"), [("fails", [None, True, True]), ("goes on", [None, True, None, None])]
)
def test_the_agent_hears_of_an_exception_that_nothing_caught(how: str, told: list[object]) -> None:
    """A process may wait for others while it exits. What it says later does not hide it; a step
    means that it goes on."""
    name = f"yarnam-test-raises-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(f"\0{name}")
        env = {
            "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "YARNAM_RANK": "0",
            "YARNAM_SDK": json.dumps({"metrics_socket": f"@{name}"}),
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", RAISES, how],
            env=env, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert "ValueError" in done.stderr, "it is printed as ever"
        assert done.returncode == (1 if how == "fails" else 0)
        agent.settimeout(1.0)
        seen = [json.loads(agent.recv(65536)).get("raised") for _ in told]
    assert seen == told


def test_a_size_is_asked_for_at_once_and_with_every_later_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[dict[str, float]] = []
    monkeypatch.setattr(reporting, "_send", lambda _, data: sent.append(json.loads(data)["values"]))
    monkeypatch.setattr(reporting, "setting", lambda _: "@socket")
    for name in ("_last", "_of_size"):
        monkeypatch.setattr(reporting, name, {})
    train.request_size(8)
    assert sent == [{"requested_gpus": 8.0}], "before anything else is reported"
    train.report(step=1, epoch=4)
    assert sent[-1]["requested_gpus"] == 8.0
    assert sent[-1]["epoch"] == 4.0
    train.request_size(None)
    assert sent[-1] == {**sent[-2], "requested_gpus": 0.0}


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_size_is_a_number_of_gpus(wrong: int) -> None:
    with pytest.raises(ValueError, match=f"a gang has at least 1 GPU, not {wrong}"):
        train.request_size(wrong)
    with pytest.raises(TypeError):
        train.request_size(2.5)  # type: ignore[arg-type]


def test_outside_a_job_a_size_is_asked_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_last", "_of_size"):
        monkeypatch.setattr(reporting, name, {})
    train.request_size(8)
