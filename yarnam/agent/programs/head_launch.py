"""Runs the command of a job whose framework has a server, with that server beside it.

The server is in the first process. The others run the command too, where it is a tracker or a
rendezvous, or a worker of the framework's.

The first process, the *head*, starts the server, and its own worker where tasks have one. When the
server listens it lets the others go on, by a port of its own, and runs the command. Workers end
when the head says that the command has succeeded.

One exchange there is, in bytes: a nonce of 32 from the head; from the other process an HMAC-SHA256
of it, and a nonce of its own; at the end, from the head, an HMAC of that nonce. The key is made of
the job's credentials, so that nobody else can keep the others out, or make workers end.

A program of its own, which imports nothing of yarnam, so that it starts at once in any directory.
``YARNAM_HEAD`` says what to start, as JSON (``yarnam.core.frameworks.head``).
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yarnam.agent.programs import strangers
    from yarnam.agent.programs.strangers import place_of, receive, warn
else:
    sys.path.append(str(Path(__file__).parent))  # an isolated interpreter leaves it out
    import strangers
    from strangers import place_of, receive, warn

ENV_HEAD = "YARNAM_HEAD"
JOIN_S = 300.0
"""For the server to listen, and for the head to say so: all processes are launched at the same
time, and importing a framework takes a minute on a busy node."""
CONNECT_S = 20.0
RETRY_S = 0.25
POLL_S = 0.1
GRACE_S = 10.0
"""Between SIGTERM and SIGKILL for servers and workers."""
STOP_S = 60.0
"""For the gang to be stopped when the head has failed: until then a worker does not fail itself,
which would look like a cause."""
ASKED_S = 600.0
"""For the server's answer: all that belong together have to ask, and those of a run that goes on
come between two steps. As long as Horovod's driver waits for hosts."""
SUCCEEDED = b"succeeded"


class HeadError(Exception):
    """The line to print before the end."""


def arguments(words: Sequence[str]) -> list[str]:
    """``python`` is the job's own; ``yarnam:NAME`` a program beside this one."""
    first, *rest = words
    if first.startswith("yarnam:"):
        path = Path(__file__).with_name(f"{first.removeprefix('yarnam:')}.py")
        return [sys.executable, "-I", "-S", str(path), *rest]
    return [os.environ["YARNAM_PYTHON"] if first == "python" else first, *rest]


def start(words: Sequence[str]) -> subprocess.Popen[bytes]:
    """In a session of its own: a stop goes to the command's process group, and the command may need
    its servers until it has ended."""
    return subprocess.Popen(arguments(words), stdin=subprocess.DEVNULL, start_new_session=True)


def key() -> bytes:
    """Raises HeadError (no credentials to make it of)."""
    try:
        return strangers.key_of(b"yarnam-head", strangers.credentials_file().read_bytes())
    except OSError as error:
        raise HeadError(f"cannot read the job's credentials: {error}") from error


def exit_code(status: int) -> int:
    """As a shell has it: 128 and the signal's number for a process that one has ended."""
    return status if status >= 0 else 128 - status


def end(children: Sequence[subprocess.Popen[bytes]], grace_s: float = GRACE_S) -> None:
    for child in children:
        child.terminate()
    limit = time.monotonic() + grace_s
    for child in children:
        try:
            child.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def is_listening(port: int) -> bool:
    """Without a connection, which a server might take for a member."""
    wanted = f"{port:04X}"
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{name}").read_text().splitlines()[1:]
        except OSError:
            continue
        fields = (line.split() for line in lines)
        if any(f[1].rpartition(":")[2] == wanted and f[3] == "0A" for f in fields):
            return True
    return False


def variables(asks: dict[str, Any]) -> dict[str, str]:
    """Those that the server gives. Raises HeadError (no answer in time, none for this task)."""
    host, port = place_of(asks["at"])
    talk = http.client.HTTPConnection(host, port, timeout=ASKED_S)
    try:
        talk.request("GET", asks["path"])
        answer = talk.getresponse()
        values = answer.read().decode().split(",")
    except (OSError, http.client.HTTPException, UnicodeDecodeError) as error:
        raise HeadError(f"the server at {asks['at']} was asked for ranks: {error!r}") from error
    finally:
        talk.close()
    if answer.status != http.client.OK or len(values) != len(asks["names"]):
        raise HeadError(f"the server at {asks['at']} gives no ranks: HTTP {answer.status}")
    if values[0].startswith("-"):
        raise HeadError("the gang goes on without this task")
    return dict(zip(asks["names"], values, strict=True))


def end_asking(*_: object) -> None:
    raise HeadError("stopped while the ranks were asked for")


# ---- the first process ---------------------------------------------------------------------------


class WorkerConnections:
    """The connections of the other processes: each is open until the command has ended."""

    def __init__(self, address: str, key: bytes) -> None:
        host, port = place_of(address)
        family = strangers.family_of(host)
        server = socket.create_server((host, port), family=family, backlog=1024)
        self._key = key
        self._strangers = strangers.Strangers()
        self._lock = threading.Lock()
        self._workers: dict[int, tuple[socket.socket, bytes]] = {}
        """By descriptor, each with its nonce."""
        self._closed = select.poll()
        serve = self._strangers.serve
        arguments = (server, self._take, threading.Event())
        threading.Thread(target=serve, args=arguments, daemon=True).start()

    def _take(self, talk: socket.socket) -> None:
        talk.settimeout(strangers.TALK_S)
        try:
            nonce = strangers.challenge(talk)
            mac = receive(talk, strangers.KEY_BYTES)
            own_nonce = receive(talk, strangers.NONCE_BYTES)
        except OSError as error:
            self._strangers.warn(f"a caller of the first process: {error}")
            mac = b""
        finally:
            self._strangers.dismiss(talk)
        if not mac or not strangers.is_proof(mac, self._key, nonce):
            talk.close()
            return
        with self._lock:
            self._drop_closed()
            self._workers[talk.fileno()] = (talk, own_nonce)
            self._closed.register(talk, select.POLLRDHUP)

    def _drop_closed(self) -> None:
        """Those that only wait for the head leave; an in-place elastic gang has ever new ones."""
        for descriptor, _ in self._closed.poll(0):
            self._closed.unregister(descriptor)
            self._workers.pop(descriptor)[0].close()

    def report_success(self) -> None:
        with self._lock:
            self._drop_closed()
            for talk, nonce in self._workers.values():
                try:
                    talk.sendall(strangers.proof(self._key, nonce, SUCCEEDED))
                except OSError as error:
                    warn(f"a worker has gone before the end: {error}")


def until_listening(server: subprocess.Popen[bytes], address: str) -> None:
    """Raises HeadError (not in time, ended before)."""
    limit = time.monotonic() + JOIN_S
    while not is_listening(place_of(address)[1]):
        if server.poll() is not None:
            code = exit_code(server.returncode)
            raise HeadError(f"the server for {address} has ended with exit code {code}")
        if time.monotonic() > limit:
            raise HeadError(f"the server does not listen at {address} after {JOIN_S:.0f} s")
        time.sleep(POLL_S)


def run_head(head: dict[str, Any], command: Sequence[str]) -> int:
    """The command, with its servers around it."""
    # A stop goes to the whole process group: the command gets it directly, and decides.
    signal.signal(signal.SIGTERM, lambda *_: None)
    services = [start(head["server"])]
    try:
        until_listening(services[0], head["server_at"])
        workers = WorkerConnections(head["at"], key())
        if head["worker"]:
            services.append(start(head["worker"]))
        given: dict[str, str] = {}
        if head.get("asks"):
            signal.signal(signal.SIGTERM, end_asking)
            given = variables(head["asks"])
            signal.signal(signal.SIGTERM, lambda *_: None)
        child = subprocess.Popen(command, env=os.environ | given)
        code = watch(child, services)
        if code:
            return code
        workers.report_success()
        wait_for(services[0], head["linger_s"])
        return 0
    finally:
        end(services[::-1])


def watch(child: subprocess.Popen[bytes], services: Sequence[subprocess.Popen[bytes]]) -> int:
    """Its exit code; 1 if something beside it has failed, without which it would wait for ever."""
    while child.poll() is None:
        failed = [each.returncode for each in services if each.poll()]
        if failed and child.poll() is None:
            warn(f"a server of the framework has ended with exit code {exit_code(failed[0])}")
            end([child])
            return 1
        time.sleep(POLL_S)
    return exit_code(child.returncode)


def wait_for(server: subprocess.Popen[bytes], limit_s: float) -> None:
    """Some end by themselves once all members have left."""
    try:
        server.wait(limit_s)
    except subprocess.TimeoutExpired:
        return


# ---- the others ----------------------------------------------------------------------------------


class HeadConnection:
    """To the head, which has begun to listen."""

    def __init__(self, address: str, key: bytes) -> None:
        """Raises HeadError when the head has not begun to listen in time."""
        self._key = key
        self._nonce = secrets.token_bytes(strangers.NONCE_BYTES)
        limit = time.monotonic() + JOIN_S
        while True:
            try:
                self.talk = self._connected(address)
            except OSError as error:
                if time.monotonic() > limit:
                    raise HeadError(f"the first process at {address}: {error}") from error
                time.sleep(RETRY_S)
            else:
                return

    def _connected(self, address: str) -> socket.socket:
        talk = socket.create_connection(place_of(address), timeout=CONNECT_S)
        try:
            nonce = receive(talk, strangers.NONCE_BYTES)
            talk.sendall(strangers.proof(self._key, nonce) + self._nonce)
            talk.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError:
            talk.close()
            raise
        return talk

    def has_succeeded(self) -> bool:
        """Whether the head says so; otherwise the connection has ended, or is not the head's."""
        try:
            mac = receive(self.talk, strangers.KEY_BYTES)
        except OSError:
            return False
        return strangers.is_proof(mac, self._key, self._nonce, SUCCEEDED)


def run_worker(words: Sequence[str], head: HeadConnection) -> int:
    """Until the head has succeeded, or the worker has ended."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    child = start(words)
    try:
        while child.poll() is None and not stopped:
            if not select.select([head.talk], [], [], POLL_S)[0]:
                continue
            if head.has_succeeded():
                return 0
            warn("the first process has ended without success")
            limit = time.monotonic() + STOP_S
            while not stopped and time.monotonic() < limit:
                time.sleep(POLL_S)
            return 128 + stopped[0] if stopped else 1
        return 128 + stopped[0] if stopped else exit_code(child.returncode)
    finally:
        end([child])


def main(words: Sequence[str]) -> int:
    """``run COMMAND...``, as the agent starts it."""
    head = json.loads(os.environ[ENV_HEAD])
    try:
        if head["is_head"]:
            return run_head(head, words[1:])
        joined = HeadConnection(head["at"], key())
        if head["worker"]:
            return run_worker(head["worker"], joined)
        joined.talk.close()
        os.environ.update(variables(head["asks"]) if head.get("asks") else {})
        os.execv(words[1], list(words[1:]))  # noqa: S606 - it is the job's command
    except HeadError as error:
        warn(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
