"""Sessions in a task: the real agent and its keeper, and the client's end."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from tests.integration.session_world import Heard, Task, hear, running
from yarnam.adapters.grpc import session_client
from yarnam.adapters.grpc.session_client import GrpcTaskSession
from yarnam.agent.keeper import procfs
from yarnam.agent.machine.session_rules import MAX_SESSIONS
from yarnam.core.model.events import SessionBegun, SessionClosed
from yarnam.core.model.session_parts import (
    EndKind,
    EndOfData,
    SessionData,
    SessionEnd,
    SessionKind,
    SessionRequest,
    WindowSize,
)
from yarnam.wire.credentials import new_credentials
from yarnam.wire.pb import yarnam_pb2_grpc
from yarnam.wire.tls import CHANNEL_OPTIONS, channel_credentials

pytestmark = [pytest.mark.grpc, pytest.mark.asyncio]


def marked(task: Task, session: str) -> set[int]:
    return procfs.marked(f"YARNAM_SESSION={session}".encode())


async def until(is_so: Callable[[], bool], limit_s: float = 10.0) -> None:
    end = asyncio.get_running_loop().time() + limit_s
    while not is_so():
        assert asyncio.get_running_loop().time() < end
        await asyncio.sleep(0.02)


async def test_a_command_has_the_tasks_environment_and_its_own_exit_code(tmp_path: Path) -> None:
    async with running(tmp_path, role_env=(("HELLO", "wörld"),)) as task:
        program = 'echo "$HELLO $YARNAM_RANK $YARNAM_CONTAINER"; pwd; echo oops >&2; exit 7'
        heard = await task.run("sh", "-c", program)
        assert heard.end == SessionEnd(EndKind.EXITED, 7)
        text, where = heard.out.decode().splitlines()
        assert text == f"wörld 0 {task.container.container_id}"
        assert Path(where) == task.container.directory / "work"
        assert heard.err == b"oops\n"
        killed = await task.run("sh", "-c", "kill -TERM $$")
        assert killed.end == SessionEnd(EndKind.EXITED, signal=signal.SIGTERM)
        missing = await task.run("no-such-program")
        assert missing.end is not None
        assert missing.end.code == 127
        assert "no-such-program is not on PATH" in missing.end.reason
        (task.container.directory / "work" / "plain").write_text("x")
        assert (await task.run("./plain")).end.code == 126  # type: ignore[union-attr]
        await until(lambda: len(task.events) == 4)
        begun, closed = task.events[:2]
        assert isinstance(begun, SessionBegun)
        assert isinstance(closed, SessionClosed)
        assert (begun.by, begun.kind, begun.session) == ("me", "exec", closed.session)
        assert begun.what.startswith("sh -c 'echo ")
        assert closed.outcome == "exit code 7"


async def test_a_task_without_an_agent_is_named(tmp_path: Path) -> None:
    async with running(tmp_path) as task:
        task.container.ask = "a1.worker.9"
        heard = await task.run("true")
        assert heard.end is not None
        assert heard.end.kind is EndKind.REFUSED
        assert heard.end.reason.startswith("the task has no agent now")
        assert task.events == []


async def test_a_frozen_agent_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_client, "ALIVE_S", 0.2)
    monkeypatch.setattr(session_client, "SILENCE_S", 1.0)
    async with running(tmp_path) as task:
        session = task.open("sh", "-c", "echo up; sleep 612; true")
        await asyncio.to_thread(hear, session, lambda heard: bool(heard.out))
        task.container.process.send_signal(signal.SIGSTOP)
        try:
            heard = await asyncio.wait_for(asyncio.to_thread(hear, session), 20)
        finally:
            task.container.process.send_signal(signal.SIGCONT)
        assert heard.end is not None
        assert "no sign of life of the task's agent" in heard.end.reason
        await until(lambda: "612" not in sleeps())


async def test_bytes_pass_unchanged_in_both_directions(tmp_path: Path) -> None:
    data = os.urandom(1 << 20) * 100
    async with running(tmp_path) as task:
        heard = await task.run("cat", data=data)
        assert heard.end == SessionEnd(EndKind.EXITED)
        assert hashlib.sha256(heard.out).digest() == hashlib.sha256(data).digest()


async def test_a_command_that_does_not_read_holds_nobody_up(tmp_path: Path) -> None:
    async with running(tmp_path) as task:
        heard = await task.run("sh", "-c", "exec <&-; echo done", data=bytes(8 << 20))
        assert heard.end == SessionEnd(EndKind.EXITED)
        assert heard.out == b"done\n"


async def test_a_terminal_has_its_size_and_ctrl_c(tmp_path: Path) -> None:
    async with running(tmp_path) as task:
        session = task.open("sh", window=WindowSize(33, 111), terminal_type="vt100")

        def use() -> Heard:
            session.send(b"stty size; echo $TERM; tty >/dev/null && echo a-$((1+1))-tty\n")
            heard = hear(session, lambda heard: b"a-2-tty" in heard.out)
            session.resize(WindowSize(44, 122))
            session.send(b"stty size; sleep 611\n")
            hear(session, lambda heard: b"44 122" in heard.out)
            while "611" not in sleeps():
                time.sleep(0.02)
            session.send(b"\x03")
            hear(session, lambda heard: b"^C" in heard.out)
            session.send(b"exit 5\n")
            heard.end = hear(session).end
            return heard

        heard = await asyncio.wait_for(asyncio.to_thread(use), 20)
        assert "611" not in sleeps()
        assert b"33 111" in heard.out
        assert b"vt100" in heard.out
        assert heard.end == SessionEnd(EndKind.EXITED, 5)


async def test_without_a_command_it_is_a_shell(tmp_path: Path) -> None:
    async with running(tmp_path) as task:
        heard = await task.run(data=b"echo $0 $((40+2)); exit 3\n")
        assert heard.out.split()[-1] == b"42"
        assert heard.end == SessionEnd(EndKind.EXITED, 3)


async def test_nothing_of_a_session_stays(tmp_path: Path) -> None:
    """Neither what it has put into the background, nor what has left its session."""
    program = "sleep 601 & setsid sleep 602 & env -i sleep 603 & echo up"
    async with running(tmp_path) as task:
        heard = await asyncio.wait_for(task.run("sh", "-c", program), 20)
        assert heard.end == SessionEnd(EndKind.EXITED)
        assert heard.opened is not None
        session = heard.opened.session
        await until(lambda: not marked(task, session))
        assert sleeps() & {"601", "602", "603"} == set()


def sleeps() -> set[str]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == b"sleep":
            found.add(words[1].decode())
    return found


async def test_a_client_that_is_gone_ends_its_session(tmp_path: Path) -> None:
    async with running(tmp_path) as task:
        session = task.open("sh", "-c", "trap '' HUP; echo up; sleep 604; sleep 605")
        heard = await asyncio.to_thread(hear, session, lambda heard: bool(heard.out))
        assert heard.opened is not None
        name = heard.opened.session
        assert marked(task, name)
        session.close()
        await until(lambda: not marked(task, name))


async def test_detached_it_stays_until_the_tasks_processes_end(tmp_path: Path) -> None:
    async with running(tmp_path) as task:
        heard = await task.run("sh", "-c", "echo there; exec sleep 606", is_detached=True)
        assert heard.end == SessionEnd(EndKind.DETACHED)
        assert heard.opened is not None
        name, log = heard.opened.session, task.container.logs / heard.opened.log
        await until(lambda: log.read_text() == "there\n")
        assert marked(task, name) == {heard.opened.pid}
        await task.here.am.leave(task.container.ask)
        await until(lambda: not marked(task, name))


async def test_a_session_ends_with_the_tasks_processes(tmp_path: Path) -> None:
    async with running(tmp_path, ["sh", "-c", "until [ -e stop ]; do sleep 0.1; done"]) as task:
        session = task.open("sleep", "607")
        heard = await asyncio.to_thread(hear, session, lambda heard: heard.opened is not None)
        assert heard.end is None
        (task.container.directory / "work" / "stop").touch()
        rest = await asyncio.wait_for(asyncio.to_thread(hear, session), 10)
        assert rest.end is not None
        assert rest.end.kind is EndKind.CUT
        assert "have ended, and its sessions with them" in rest.end.reason
        refused = await task.run("true")
        assert refused.end is not None
        assert refused.end.kind is EndKind.REFUSED


async def test_an_agent_that_is_killed_takes_its_sessions_along(tmp_path: Path) -> None:
    async with running(tmp_path) as task:
        session = task.open("sh", "-c", "setsid sleep 608 & exec sleep 609")
        await asyncio.to_thread(hear, session, lambda heard: heard.opened is not None)
        await until(lambda: {"608", "609"} <= sleeps())
        task.container.process.kill()
        rest = await asyncio.wait_for(asyncio.to_thread(hear, session), 10)
        assert rest.end is not None
        assert rest.end.kind is EndKind.CUT
        await until(lambda: not {"608", "609"} & sleeps())


async def test_as_many_as_the_limit_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as task:
        open_now = [task.open("cat") for _ in range(MAX_SESSIONS)]
        for session in open_now:
            await asyncio.to_thread(hear, session, lambda heard: heard.opened is not None)
        refused = await task.run("true")
        assert refused.end is not None
        assert refused.end.reason == f"the task has {MAX_SESSIONS} sessions already"
        for number, session in enumerate(open_now):
            session.send(b"%d\n" % number)
            session.end_data()
        for number, session in enumerate(open_now):
            heard = await asyncio.to_thread(hear, session)
            assert (bytes(heard.out), heard.end) == (b"%d\n" % number, SessionEnd(EndKind.EXITED))
        assert (await task.run("true")).end == SessionEnd(EndKind.EXITED)


async def test_a_spec_can_forbid_them(tmp_path: Path) -> None:
    async with running(tmp_path, interactive=False) as task:
        heard = await task.run("true")
        assert heard.end is not None
        assert heard.end.kind is EndKind.REFUSED
        assert "interactive: false" in heard.end.reason


async def test_signals_reach_the_commands_group(tmp_path: Path) -> None:
    async with running(tmp_path) as task:
        session = task.open("sh", "-c", "trap 'exit 9' INT; echo up; sleep 610 & wait")
        await asyncio.to_thread(hear, session, lambda heard: bool(heard.out))
        session.send_signal(signal.SIGINT)
        heard = await asyncio.wait_for(asyncio.to_thread(hear, session), 10)
        assert heard.end == SessionEnd(EndKind.EXITED, 9)


async def test_connections_to_a_server_in_the_task(tmp_path: Path) -> None:
    """Bytes both ways, and the end of one direction alone."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"got:" + await reader.read())
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, running(tmp_path) as task:
        none = await task.run(kind=SessionKind.CONNECT, port=port, forward="nothing")
        assert none.end is not None
        assert none.end.kind is EndKind.REFUSED
        forward = task.open(kind=SessionKind.FORWARD, ports=(port, 1))
        opened = await asyncio.to_thread(hear, forward, lambda heard: heard.opened is not None)
        assert opened.opened is not None
        name = opened.opened.session
        connection = task.open(kind=SessionKind.CONNECT, port=port, forward=name)
        connection.send(b"hello")
        connection.end_data()
        parts = await asyncio.to_thread(list, connection)
        assert b"".join(one.data for one in parts if isinstance(one, SessionData)) == b"got:hello"
        assert parts[-2:] == [EndOfData(), SessionEnd(EndKind.EXITED)]
        closed = await task.run(kind=SessionKind.CONNECT, port=1, forward=name)
        assert closed.end is not None
        assert "Connection refused" in closed.end.reason
        other = await task.run(kind=SessionKind.CONNECT, port=port + 1, forward=name)
        assert other.end is not None
        assert "no port-forward" in other.end.reason
        forward.close()


async def test_strangers_get_no_answer_to_a_request(tmp_path: Path) -> None:
    async with running(tmp_path) as task:
        credentials = channel_credentials(new_credentials())
        with grpc.secure_channel(task.address, credentials, CHANNEL_OPTIONS) as channel:
            stub = yarnam_pb2_grpc.TaskSessionsStub(channel)
            request = SessionRequest(SessionKind.EXEC, "eve", task.container.ask)
            heard = await asyncio.to_thread(hear, GrpcTaskSession(stub.Open, request, task.address))
        assert heard.opened is None
        assert heard.end is not None
        assert heard.end.kind is EndKind.CUT
