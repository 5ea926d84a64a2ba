"""``yarnam notebook`` as a user has it: a cell is executed through the forward, an unused notebook
ends, and the next one has its files."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hdfs_utils.filesystem import FileStatus
from tests.integration.framework_venvs import framework_python
from tests.integration.submit_world import SubmitWorld
from yarnam.client import Client

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.long, pytest.mark.timeout(900)]

LIMIT_S = 180.0

CELL = """\
import json, sys, urllib.request, uuid
from urllib.parse import urlsplit
import websocket  # jupyter_server_terminals and jupyter_server's clients bring it

url, token, code = sys.argv[1:4]
head = {"Authorization": f"token {token}"}

def post(path, body=None):
    data = json.dumps(body or {}).encode()
    request = urllib.request.Request(f"{url}{path}", data, head, method="POST")
    return json.load(urllib.request.urlopen(request, timeout=60))

kernel = post("api/kernels", {"name": "python3", "path": ""})["id"]
address = f"ws://{urlsplit(url).netloc}/api/kernels/{kernel}/channels"
socket = websocket.create_connection(address, header=head, timeout=120)
message = {
    "header": {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "username": "",
               "session": uuid.uuid4().hex, "version": "5.3", "date": ""},
    "parent_header": {}, "metadata": {}, "channel": "shell",
    "content": {"code": code, "silent": False, "store_history": False, "user_expressions": {},
                "allow_stdin": False, "stop_on_error": True},
}
socket.send(json.dumps(message))
out = ""
while True:
    heard = json.loads(socket.recv())
    if heard["parent_header"].get("msg_id") != message["header"]["msg_id"]:
        continue
    if heard["msg_type"] == "stream":
        out += heard["content"]["text"]
    elif heard["msg_type"] == "error":
        raise SystemExit("\\n".join(heard["content"]["traceback"]))
    elif heard["msg_type"] == "status" and heard["content"]["execution_state"] == "idle":
        break
socket.close()
print(out, end="")
"""


class Notebook:
    """A ``yarnam notebook`` that runs."""

    def __init__(self, world: SubmitWorld, *arguments: str) -> None:
        self.process = world.start("notebook", *arguments, "--no-browser", "--json", "--with-token")
        self.facts: dict[str, Any] = {}
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            if "url" in told:
                self.facts = told
                break
        assert self.facts, self.process.communicate()[1]

    @property
    def application(self) -> str:
        return str(self.facts["application"])

    def run_cell(self, code: str) -> str:
        """Until it succeeds: the notebook may be on its way to another container."""
        url = f"http://{self.facts['local']}/"
        command = [str(framework_python("jupyterlab")), "-c", CELL, url, self.facts["token"], code]
        limit_s = time.monotonic() + LIMIT_S
        while True:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
            if done.returncode == 0:
                return done.stdout
            assert time.monotonic() < limit_s, done.stderr
            time.sleep(1.0)

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.wait()

    def wait(self) -> int:
        self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode


def spec(world: SubmitWorld, name: str, idle_timeout: str) -> str:
    return world.spec(
        name,
        None,  # type: ignore[arg-type]
        memory_per_gpu="1GiB",
        environment={"python": str(framework_python("jupyterlab"))},
        notebook={"idle_timeout": idle_timeout},
    )


def test_cells_run_through_the_forward_and_their_files_come_back(
    submit_world: SubmitWorld, unique_name: Callable[[str], str]
) -> None:
    world, name = submit_world, unique_name("notebook")
    path = spec(world, name, "12s")
    first = Notebook(world, path)
    token = first.facts["token"]
    shown = first.run_cell(
        f"import os\nprint(os.environ['CUDA_VISIBLE_DEVICES'], '{token}' in str(os.environ))\n"
        "open('result.txt', 'w').write('42')\nopen('made.ipynb', 'w').write('{}')"
    )
    assert shown.split()[1] == "False", "a cell's output must not be able to hold the secret"
    assert token not in commands_of_all()
    # The kernel idles and no client is connected: after the timeout the job ends well.
    assert first.wait() == 0
    status = world.await_state(first.application, "SUCCEEDED")
    assert "no kernel was busy" in status["verdict"]["message"]
    events = world.run("events", first.application).out
    assert "unused for" in events
    for text in (events, world.output(first.application), json.dumps(status), *stored(world)):
        assert token not in text
    second = Notebook(world, path)
    assert second.run_cell("print(open('result.txt').read())") == "42\n"
    assert second.facts["token"] != token
    assert second.interrupt() == 128 + signal.SIGINT
    world.await_state(second.application, "CANCELLED")


def test_one_that_is_kept_is_opened_again_and_survives_a_preemption(
    submit_world: SubmitWorld, unique_name: Callable[[str], str]
) -> None:
    world, name = submit_world, unique_name("notebook")
    first = Notebook(world, spec(world, name, "1h"), "--keep")
    assert first.interrupt() == 128 + signal.SIGINT
    again = Notebook(world, first.application)
    assert again.facts["token"] == first.facts["token"]
    assert again.run_cell("open('a.txt', 'w').write('42'); print(6 * 7)") == "42\n"
    with Client(world.conf_dir) as client:
        job = client.job(first.application)
        for status in job.watch():
            if status.mirror is not None and status.mirror.number:
                break
        job.interrupt()
        for status in job.watch():
            if status.attempt == 2:
                break
    # Through the same local port, with the same token.
    assert again.run_cell("print(open('a.txt').read())") == "42\n"
    assert again.interrupt() == 128 + signal.SIGINT
    assert world.run("status", first.application, "--json").json["state"] == "RUNNING"
    taken = world.run("notebook", spec(world, name, "1h"), "--json")
    assert "yarnam notebook application_" in taken.out + taken.err
    assert world.run("kill", first.application).code == 0


def test_without_jupyterlab_the_error_says_what_to_add(
    submit_world: SubmitWorld, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    world, name = submit_world, unique_name("notebook")
    bare = tmp_path / "bare"
    subprocess.run(["python3", "-m", "venv", "--without-pip", str(bare)], check=True)
    path = world.spec(
        name,
        None,  # type: ignore[arg-type]
        environment={"python": str(bare / "bin" / "python")},
        notebook={},
    )
    done = world.run("notebook", path, "--no-browser")
    assert done.code == 90, done.err
    assert "jupyterlab" in done.out
    assert "environment.requirements" in done.out


def stored(world: SubmitWorld) -> Iterator[str]:
    """All that yarnam keeps on HDFS of jobs, and of those that have ended."""
    for folder in ("jobs", "applications", "history"):
        root = f"{world.home}/.yarnam/{folder}"
        found = world.files.list(root) if world.files.exists(root) else []
        for entry in found:
            yield from texts_below(world, entry)


def texts_below(world: SubmitWorld, entry: FileStatus) -> Iterator[str]:
    if entry.is_dir:
        for one in world.files.list(entry.path):
            yield from texts_below(world, one)
    elif entry.length < 1 << 20:
        yield world.files.read_bytes(entry.path).decode(errors="replace")


def commands_of_all() -> str:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return "".join(found)
