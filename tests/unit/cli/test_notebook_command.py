"""``yarnam notebook`` over a client on fakes."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.fakes.task_sessions import FakeTaskSession
from tests.unit.cli.terminal import in_pipes
from tests.unit.client.world import APPLICATION, World, status, task, verdict
from yarnam.cli.control import notebook_command
from yarnam.cli.shell import Shell, run
from yarnam.client.monitor.sessions import notebook_access
from yarnam.client.monitor.sessions.notebook_access import NotebookServer, read_server
from yarnam.core.model.job_spec import NotebookSpec
from yarnam.core.model.job_status import JobState
from yarnam.core.model.outcomes import VerdictKind
from yarnam.core.model.session_parts import (
    EndKind,
    SessionData,
    SessionEnd,
    SessionKind,
    SessionOpened,
    SessionPart,
    SessionRequest,
)
from yarnam.errors import ExitCode, Unavailable, UsageError
from yarnam.wire.codec import encode

TOKEN = "0123456789abcdef" * 3
ANSWER = [SessionData(f"4321 {TOKEN}".encode()), SessionEnd(EndKind.EXITED)]
REQUEST = SessionRequest(SessionKind.EXEC, "me", "a")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """With a notebook that runs, and has ended at the third look."""
    made = World(tmp_path)
    running = status(tasks=(task("notebook-0", (0,)),))
    made.line.statuses = [
        running,
        status(JobState.SUCCEEDED, verdict=verdict(VerdictKind.SUCCEEDED, message="well")),
    ]
    made.line.session_parts = [SessionOpened("s"), *ANSWER]
    handle = made.job()
    record = handle.record()
    job = replace(record.job, notebook=NotebookSpec())
    made.put(handle.directory.split("/")[-1], "job.json", encode(replace(record, job=job)))

    def end(_: object) -> None:
        if made.line._next == len(made.line.statuses):
            made.rm.change(APPLICATION, state="FINISHED")

    made.rm.on_look = end
    return made


def yarnam(world: World, *arguments: str) -> tuple[int, str, str]:
    with in_pipes() as (out, err):
        code = run(["notebook", *arguments], Shell(lambda **_: world.client))
    return code, out.content, err.content


@pytest.fixture
def answering() -> Iterator[int]:
    """A port of a server that answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()


# ---- the way to the server -----------------------------------------------------------------------


def read(*parts: SessionPart) -> NotebookServer:
    return read_server("jupyterlab", "notebook-0", FakeTaskSession(REQUEST, parts))


def test_port_and_secret_come_by_a_session() -> None:
    server = read(SessionOpened("s"), *ANSWER)
    assert (server.port, server.token) == (4321, TOKEN)
    assert server.url(88) == f"http://127.0.0.1:88/lab?token={TOKEN}"
    assert replace(server, kind="code-server").url(88) == "http://127.0.0.1:88/"
    assert TOKEN not in repr(server)
    assert TOKEN.encode() not in b"".join(notebook_access.COMMAND)


@pytest.mark.parametrize(
    "data",
    [b"", b" ", b"80", b"80 <script>", b"800000 " + TOKEN.encode(), b"x" * 5000, b"\xff\xff"],
)
def test_another_answer_is_refused(data: bytes) -> None:
    with pytest.raises(Unavailable, match="does not give the notebook's port"):
        read(SessionData(data), SessionEnd(EndKind.EXITED))
    with pytest.raises(Unavailable, match="no reason"):
        read(SessionData(data))


def test_a_refused_session_is_an_error_of_use() -> None:
    with pytest.raises(UsageError, match="sessions are off"):
        read(SessionEnd(EndKind.REFUSED, reason="sessions are off"))


def test_any_answer_means_that_the_server_is_there(
    answering: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook_access.await_listening(answering, lambda: False)
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()[1]
    notebook_access.await_listening(closed, lambda: True)
    monkeypatch.setattr(notebook_access, "LISTEN_S", 0.0)
    with pytest.raises(Unavailable, match="does not answer"):
        notebook_access.await_listening(closed, lambda: False)


# ---- the command ---------------------------------------------------------------------------------


def test_it_follows_the_notebook_to_its_end(world: World) -> None:
    code, out, err = yarnam(world, APPLICATION, "--no-browser")
    assert code == 0, err
    assert "SUCCEEDED: well" in out
    assert "the port-forward has ended" in err
    kinds = [session.request.kind for session in world.line.sessions]
    assert kinds[:2] == [SessionKind.EXEC, SessionKind.FORWARD]
    assert world.line.sessions[1].request.ports == (4321,)
    assert TOKEN not in err


def test_json_has_the_secret_when_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], world: World
) -> None:
    server = NotebookServer("jupyterlab", 4321, TOKEN)
    chosen = notebook_command.task_choice.ChosenTask("notebook-0", "a", 0)
    for with_token in (False, True):
        view = notebook_command._NotebookView(
            world.client.job(APPLICATION), 88, as_json=True, with_token=with_token, browser=True
        )
        view._print_address(server, chosen, "", ExitStack())
        shown = capsys.readouterr()
        assert (TOKEN in shown.out + shown.err) is with_token
        facts = json.loads(shown.out)
        assert facts["local"] == "127.0.0.1:88"
        assert ("url" in facts) is with_token


def test_a_browser_gets_a_private_file_and_not_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """All users see the arguments of a browser's process."""
    opened: list[str] = []

    def open_(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr(notebook_command.webbrowser, "open", open_)
    url = f"http://127.0.0.1:88/lab?token={TOKEN}"
    for name in notebook_command.DISPLAYS:
        monkeypatch.delenv(name, raising=False)
    with ExitStack() as stack:
        assert not notebook_command.open_browser(url, stack)
        monkeypatch.setenv("DISPLAY", ":0")
        assert notebook_command.open_browser(url, stack)
        [address] = opened
        assert TOKEN not in address
        path = Path(unquote(urlsplit(address).path))
        assert url in path.read_text()
        assert path.stat().st_mode & 0o077 == 0
    assert not path.exists()


def test_a_job_that_is_no_notebook_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.job()
    code, _, err = yarnam(world, APPLICATION)
    assert code == ExitCode.USAGE
    assert f"{APPLICATION} is not a notebook: its spec has no section notebook" in err
    assert "The job continues" in err


def test_a_spec_that_is_no_notebook_is_not_submitted(tmp_path: Path) -> None:
    world = World(tmp_path)
    spec = tmp_path / "spec.yaml"
    spec.write_text("version: 1\nname: a\nqueue: root.dl\ngpus: 1\ncommand: [a]\n")
    code, _, err = yarnam(world, str(spec))
    assert code == ExitCode.USAGE
    assert "is not a notebook" in err
    assert not world.launcher.submitted
    assert yarnam(world, str(spec), "--gpus", "2")[0] == ExitCode.USAGE


def test_a_port_that_is_taken_is_refused_before_anything_is_submitted(tmp_path: Path) -> None:
    world = World(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = yarnam(world, "-q", "root.dl", "--port", str(port))
    assert code == ExitCode.USAGE
    assert f"cannot listen on 127.0.0.1:{port}" in err
    assert not world.launcher.submitted


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"notebook": {"server": "jupyterlab"}}),
        ({"gpus": 2, "vscode": True}, {"notebook": {"server": "code-server"}, "gpus": 2}),
        (
            {"environment": "/some/env.tar.gz"},
            {"notebook": {"server": "jupyterlab"}, "environment": {"archive": "/some/env.tar.gz"}},
        ),
        (
            {"environment": "/"},
            {"notebook": {"server": "jupyterlab"}, "environment": {"venv": "/"}},
        ),
        (
            {"environment": "/some/r.txt", "gpus": 0},
            {"notebook": {"server": "jupyterlab"}, "environment": {"requirements": "/some/r.txt"}},
        ),
    ],
)
def test_options_make_a_spec(options: dict[str, object], expected: dict[str, object]) -> None:
    given = {"gpus": None, "environment": None, "vscode": False} | options
    with notebook_command.own_spec(
        given["gpus"],
        given["environment"],
        "root.dl",
        vscode=given["vscode"],  # type: ignore[arg-type]
    ) as made:
        if not options:
            [requirements] = made.pop("environment").values()
            assert Path(requirements).read_text() == "jupyterlab\n"
        assert made == {"version": 1, "name": "notebook", "queue": "root.dl", **expected}
