"""The program beside a notebook's server: what it makes of the server's answers, and where the
secret is."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from yarnam.agent.programs import notebook_server
from yarnam.agent.programs.notebook_server import jupyter_used_at_s, vscode_used_at_s
from yarnam.core.model import job_spec
from yarnam.core.model.metrics import NOTEBOOK_IDLE_S

NOW_S = 1_000_000.0
STATUS = {"connections": 0, "kernels": 1, "last_activity": "1970-01-12T13:40:00.000000Z"}
PROGRAM = [sys.executable, "-I", "-S", notebook_server.__file__, "jupyterlab"]
TOKEN = "0123456789abcdef" * 3
SERVER = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

config = os.environ["JUPYTER_CONFIG_DIR"]
settings = json.load(open(config + "/jupyter_server_config.json"))
token = settings["IdentityProvider"]["token"]
assert oct(os.stat(config + "/jupyter_server_config.json").st_mode & 0o777) == "0o600"
assert token not in str(os.environ) + str(sys.argv), "a kernel's environment is the server's"
assert json.loads(os.environ["YARNAM_SDK"])["metrics_socket"] == ""
asked = 0

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        global asked
        asked += 1
        assert self.headers["Authorization"] == "token " + token
        assert "no_track_activity" in self.path
        body = b"[]"
        if self.path.startswith("/api/status"):
            body = b'{"last_activity": "2020-01-01T00:00:00Z"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = HTTPServer(("127.0.0.1", settings["ServerApp"]["port"]), Handler)
while asked < 2:
    server.handle_request()
sys.exit(3)
"""


def kernel(**changes: Any) -> dict[str, Any]:
    return {
        "execution_state": "idle", "connections": 0, "last_activity": STATUS["last_activity"]
    } | changes  # fmt: skip


@pytest.mark.parametrize(
    ("kernels", "used_at_s"),
    [
        ([], 999_600.0),
        ([kernel()], 999_600.0),
        ([kernel(last_activity="1970-01-12T13:43:20Z")], 999_800.0),
        ([kernel(), kernel(execution_state="busy")], NOW_S),
        ([kernel(execution_state="starting")], NOW_S),
        ([kernel(connections=1)], NOW_S),
        ([kernel(last_activity="2070-01-12T13:43:20Z")], NOW_S),
    ],
)
def test_when_jupyterlab_was_used(kernels: list[dict[str, Any]], used_at_s: float) -> None:
    assert jupyter_used_at_s(STATUS, kernels, NOW_S) == used_at_s


@pytest.mark.parametrize(
    ("status", "kernels"),
    [([], []), (STATUS, {}), (STATUS, [1]), ({}, []), ({"last_activity": "x" * 99}, [])],
)
def test_an_answer_of_something_else_says_nothing(status: Any, kernels: Any) -> None:
    with pytest.raises(ValueError):
        jupyter_used_at_s(status, kernels, NOW_S)


def test_when_vscode_was_used() -> None:
    assert vscode_used_at_s({"status": "expired", "lastHeartbeat": 999_000_000}, NOW_S) == 999_000
    for answer in ({}, [], {"lastHeartbeat": True}, {"lastHeartbeat": "1"}):
        with pytest.raises(ValueError, match="code-server"):
            vscode_used_at_s(answer, NOW_S)


def test_names_are_those_of_yarnam() -> None:
    assert notebook_server.ENV_TOKEN == job_spec.NOTEBOOK_TOKEN
    assert f"YARNAM_PORT_{job_spec.NOTEBOOK_PORT.upper()}" == notebook_server.ENV_PORT
    assert notebook_server.FILES == job_spec.NOTEBOOK_FILES
    assert notebook_server.IDLE_METRIC == NOTEBOOK_IDLE_S


def test_the_secret_is_in_a_private_file_alone(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    name = f"yarnam-test-{os.getpid()}"
    inbox.bind(f"\0{name}")
    inbox.settimeout(30.0)
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run(
        [*PROGRAM, sys.executable, program],
        env={
            "PATH": os.environ["PATH"],
            "YARNAM_NOTEBOOK_TOKEN": TOKEN,
            "YARNAM_PORT_NOTEBOOK": str(port),
            "YARNAM_STOP_FILE": str(tmp_path / ".yarnam-stop"),
            "YARNAM_SDK": json.dumps({"metrics_socket": f"@{name}"}),
        },
        cwd=work, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    report = json.loads(inbox.recv(4096))
    inbox.close()
    assert report["values"][NOTEBOOK_IDLE_S] < 60.0, "nobody could use it before its start"
    assert (work / "notebooks").is_dir()
    assert TOKEN not in done.stdout + done.stderr
    private = tmp_path / notebook_server.PRIVATE
    assert private.stat().st_mode & 0o077 == 0


def test_without_jupyterlab_it_says_what_to_add(tmp_path: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "/bin/false"],
        env={
            "YARNAM_NOTEBOOK_TOKEN": TOKEN,
            "YARNAM_PORT_NOTEBOOK": "1",
            "YARNAM_STOP_FILE": str(tmp_path / ".yarnam-stop"),
        },
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "add `jupyterlab` to the file of environment.requirements" in done.stderr


def test_code_server_gets_its_secret_by_a_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    private = tmp_path / "private"
    more, env = notebook_server.prepare(
        "code-server", 88, TOKEN, private, {notebook_server.ENV_TOKEN: TOKEN}
    )
    settings = json.loads((private / "config.yaml").read_text())
    assert settings["bind-addr"] == "127.0.0.1:88"
    assert (settings["auth"], settings["password"]) == ("password", TOKEN)
    assert TOKEN not in f"{more} {env}"
    assert more[:2] == ("--config", str(private / "config.yaml"))
    assert more[-1] == str(tmp_path / "notebooks")
