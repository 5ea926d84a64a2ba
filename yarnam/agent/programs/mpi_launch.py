"""Runs the command of a job with MPI: itself in the first task, a launch daemon in the others.

mpirun starts one helper of its own on each host, by a program that it takes for ssh. Here that
program is this one (``on HOST COMMAND...``): it sends the command line to the launch daemon in the
task of that name, waits for its end, and ends with its exit code. The hosts are tasks, because two
of them may share a node, and each has its own GPUs and its own limits.

A program of its own, which imports nothing of yarnam, so that it starts at once in any directory.

One exchange is, in bytes: a nonce of 32 from the daemon; from the caller an HMAC-SHA256 over nonce
and command, the command's length (4, big-endian) and the command, where an empty one ends the
daemon; from the daemon the exit code (1). The key is made of the job's credentials, which every
container of the job has and nobody else can read.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

NONCE_BYTES = KEY_BYTES = 32
MAX_COMMAND = 1 << 20
"""Bytes. mpirun's are a few kilobytes; the kernel's own limit for one argument is 128 KiB."""
TALK_S = 20.0
"""For one side of an exchange to send what it has to."""
JOIN_S = 120.0
"""For the launch daemon of another task to listen: all tasks are launched at the same time."""
MAX_STRANGERS = 64
"""Callers at a time that have not shown the key yet. mpirun calls each task once; anybody in the
network can connect, and takes a descriptor and a thread."""
MAX_WARNINGS = 20
"""Of callers; anybody could fill the log."""
RETRY_S = 0.25
POLL_S = 0.1
GRACE_S = 5.0
"""Between SIGTERM and SIGKILL for a command whose caller has gone."""

CREDENTIALS = "yarnam-credentials.pem"
"""``LOCAL_CREDENTIALS_FILE``, in the container's directory; a process starts in a folder there."""
FOLDER = ".yarnam-mpi"
ENV_KEY = "YARNAM_MPI_KEY_FILE"
ENV_HOSTS = "YARNAM_MPI_HOSTS"
ENV_DAEMONS = "YARNAM_MPI_DAEMONS"


class LaunchError(Exception):
    """The line to print before the end."""


def warn(text: str) -> None:
    sys.stderr.write(f"yarnam: {text}\n")
    sys.stderr.flush()


def key_of(credentials: bytes) -> bytes:
    """Not the credentials themselves: who learns this key can start programs, and no more."""
    return hmac.new(b"yarnam-mpi-launch", credentials, hashlib.sha256).digest()


def slots(hosts: str) -> dict[str, int]:
    """``worker-0:2,worker-1:2`` as a mapping, in that order."""
    pairs = (each.rpartition(":") for each in hosts.split(",") if each)
    return {name: int(count) for name, _, count in pairs}


def own_name(env: Mapping[str, str]) -> str:
    return f"{env['YARNAM_ROLE']}-{env['YARNAM_TASK_INDEX']}"


def place_of(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


# ---- the first task ------------------------------------------------------------------------------


def mpirun_settings(folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The variables by which every mpirun finds the hosts and the launcher, whatever it is. The
    job's own values win: ``env``."""
    launcher, hosts, hydra = (str(folder / name) for name in ("launch", "hosts", "hosts.hydra"))
    settings = {
        # Open MPI 5 (PRRTE), Open MPI 4.
        "PRTE_MCA_plm_ssh_agent": launcher,
        "PRTE_MCA_prte_default_hostfile": hosts,
        "OMPI_MCA_plm_rsh_agent": launcher,
        "OMPI_MCA_orte_default_hostfile": hosts,
        # The daemons start no further ones: only this task can. They stay in the foreground, so
        # that their end is seen.
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_prte_leave_session_attached": "1",
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_leave_session_attached": "1",
        # A container's user is YARN's choice, and root cannot harm more there than it can anyway.
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        # MPICH's Hydra, and Intel MPI's.
        "HYDRA_LAUNCHER": "rsh",
        "HYDRA_LAUNCHER_EXEC": launcher,
        "HYDRA_HOST_FILE": hydra,
        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": launcher,
        "I_MPI_HYDRA_HOST_FILE": hydra,
    }
    if int(env["YARNAM_NUM_NODES"]) < int(env["YARNAM_GROUP_WORLD_SIZE"]):
        # Two tasks of one node both count their local ranks from 0: shared memory would mix them.
        settings |= {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_pml": "ob1"}
    return {name: value for name, value in settings.items() if name not in env}


def write_files(folder: Path, hosts: str) -> None:
    folder.mkdir(exist_ok=True)
    counts = slots(hosts).items()
    (folder / "hosts").write_text("".join(f"{name} slots={count}\n" for name, count in counts))
    (folder / "hosts.hydra").write_text("".join(f"{name}:{count}\n" for name, count in counts))
    words = (sys.executable, "-I", "-S", str(Path(__file__).absolute()), "on")
    launcher = folder / "launch"
    launcher.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    launcher.chmod(0o755)


def run_command(command: Sequence[str], key_file: Path) -> int:
    """The command, and when it has ended well the end of all launch daemons."""
    env = dict(os.environ)
    folder = key_file.parent / FOLDER
    write_files(folder, env[ENV_HOSTS])
    env |= mpirun_settings(folder, env) | {ENV_KEY: str(key_file)}
    # A stop goes to the whole process group: the command gets it directly, and decides.
    signal.signal(signal.SIGTERM, lambda *_: None)
    child = subprocess.Popen(command, env=env)
    code = exit_code(child.wait())
    if code:
        return code
    key = key_of(key_file.read_bytes())
    for name, address in daemons(env).items():
        if name != own_name(env):
            call(name, address, key, b"")
    return 0


def daemons(env: Mapping[str, str]) -> dict[str, str]:
    """``host:port`` of the launch daemon of each task, by the task's name."""
    return dict(zip(slots(env[ENV_HOSTS]), env[ENV_DAEMONS].split(","), strict=True))


def exit_code(status: int) -> int:
    """As a shell has it: 128 and the signal's number for a process that one has ended."""
    return status if status >= 0 else 128 - status


# ---- in place of ssh -----------------------------------------------------------------------------


def run_on(host: str, words: Sequence[str]) -> int:
    """The words are quoted for a shell already, as for ssh."""
    env = os.environ
    command = " ".join(words)
    if host == own_name(env):
        os.execv("/bin/sh", ("sh", "-c", command))  # noqa: S606 - it is one
    addresses = daemons(env)
    if host not in addresses:
        raise LaunchError(f"there is no task {host}; the tasks are {', '.join(addresses)}")
    key = key_of(Path(env[ENV_KEY]).read_bytes())
    return call(host, addresses[host], key, os.fsencode(command))


def call(name: str, address: str, key: bytes, command: bytes) -> int:
    """Send a command to a launch daemon and wait for its end; returns its exit code. Raises
    LaunchError (not there in time, gone before the end)."""
    if len(command) > MAX_COMMAND:
        raise LaunchError(f"the command for {name} has {len(command)} bytes, over {MAX_COMMAND}")
    try:
        with connect(address) as talk:
            talk.settimeout(TALK_S)
            nonce = receive(talk, NONCE_BYTES)
            mac = hmac.new(key, nonce + command, hashlib.sha256).digest()
            talk.sendall(mac + len(command).to_bytes(4, "big") + command)
            talk.settimeout(None)
            return receive(talk, 1)[0]
    except OSError as error:
        raise LaunchError(f"the launch daemon of {name} at {address}: {error}") from error


def connect(address: str) -> socket.socket:
    end = time.monotonic() + JOIN_S
    while True:
        try:
            talk = socket.create_connection(place_of(address), timeout=TALK_S)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(RETRY_S)
        else:
            talk.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return talk


def receive(talk: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = talk.recv(size - len(found))
        if not more:
            raise ConnectionResetError("closed the connection before the end")
        found += more
    return found


# ---- the other tasks -----------------------------------------------------------------------------


class LaunchDaemon:
    """Runs the commands of those who have the key, until one of them ends it."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._strangers: list[socket.socket] = []
        self._warnings = 0

    def serve(self, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, port), family=family) as server:
            server.settimeout(POLL_S)
            while not self._end.is_set():
                try:
                    talk, _ = server.accept()
                except TimeoutError:
                    continue
                except OSError as error:  # no descriptor is free: others may give some back
                    self._warn(f"the launch daemon cannot be called: {error}")
                    self._end.wait(RETRY_S)
                    continue
                self._admit(talk)
                threading.Thread(target=self._talk, args=(talk,), daemon=True).start()

    def stop(self) -> None:
        self._end.set()

    def _admit(self, talk: socket.socket) -> None:
        """The one who has been here for the longest time without the key gives way: a caller with
        the key shows it within milliseconds."""
        with self._lock:
            self._strangers.append(talk)
            if len(self._strangers) > MAX_STRANGERS:
                with suppress(OSError):  # its thread closes it
                    self._strangers.pop(0).shutdown(socket.SHUT_RDWR)

    def _dismiss(self, talk: socket.socket) -> None:
        """The connection no longer counts as a stranger's, or has ended."""
        with self._lock, suppress(ValueError):
            self._strangers.remove(talk)

    def _warn(self, text: str) -> None:
        self._warnings += 1
        if self._warnings <= MAX_WARNINGS:
            warn(text)

    def _talk(self, talk: socket.socket) -> None:
        with talk:
            talk.settimeout(TALK_S)
            try:
                try:
                    command = self._command(talk)
                finally:
                    self._dismiss(talk)
                if command is None:
                    return
                code = 0 if not command else self._run(command, talk)
                talk.sendall(bytes([code]))
            except OSError as error:
                self._warn(f"a caller of the launch daemon: {error}")
                return
        if not command:
            self.stop()

    def _command(self, talk: socket.socket) -> bytes | None:
        """``None`` if the caller does not have the key."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        talk.sendall(nonce)
        mac = receive(talk, KEY_BYTES)
        size = int.from_bytes(receive(talk, 4), "big")
        if size > MAX_COMMAND:
            return None
        command = receive(talk, size)
        mine = hmac.new(self._key, nonce + command, hashlib.sha256).digest()
        if not hmac.compare_digest(mine, mac):
            self._warn("the launch daemon has refused a caller that does not have the job's key")
            return None
        return command

    def _run(self, command: bytes, talk: socket.socket) -> int:
        child = subprocess.Popen(("/bin/sh", "-c", command), stdin=subprocess.DEVNULL)
        talk.settimeout(None)
        while child.poll() is None:
            if select.select([talk], [], [], POLL_S)[0] and not talk.recv(1):
                end_child(child)
                break
        return exit_code(child.wait())


def end_child(child: subprocess.Popen[bytes]) -> None:
    """Its caller has gone: nobody waits for it any more."""
    child.terminate()
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()


def run_daemon(key_file: Path) -> int:
    daemon = LaunchDaemon(key_of(key_file.read_bytes()))
    stopped: list[int] = []

    def stop(number: int, _frame: object) -> None:
        stopped.append(number)
        daemon.stop()

    signal.signal(signal.SIGTERM, stop)
    host, port = place_of(daemons(os.environ)[own_name(os.environ)])
    daemon.serve(host, port)
    return 128 + stopped[0] if stopped else 0


def main(words: Sequence[str]) -> int:
    """``run COMMAND...``, as the agent starts it; ``on HOST COMMAND...``, as mpirun does."""
    mode, *rest = words
    try:
        if mode == "on":
            return run_on(rest[0], rest[1:])
        key_file = Path.cwd().parent / CREDENTIALS
        if os.environ["YARNAM_GROUP_RANK"] == "0":
            return run_command(rest, key_file)
        return run_daemon(key_file)
    except LaunchError as error:
        warn(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
