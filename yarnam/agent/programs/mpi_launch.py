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

import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yarnam.agent.programs import strangers
    from yarnam.agent.programs.strangers import place_of, receive, warn
else:
    sys.path.append(str(Path(__file__).parent))  # an isolated interpreter leaves it out
    import strangers
    from strangers import place_of, receive, warn

MAX_COMMAND = 1 << 20
"""Bytes. mpirun's are a few kilobytes; the kernel's own limit for one argument is 128 KiB."""
JOIN_S = 120.0
"""For the launch daemon of another task to listen: all tasks are launched at the same time."""
RETRY_S = 0.25
POLL_S = 0.1
GRACE_S = 5.0
"""Between SIGTERM and SIGKILL for a command whose caller has gone."""

FOLDER = ".yarnam-mpi"
ENV_KEY = "YARNAM_MPI_KEY_FILE"
ENV_HOSTS = "YARNAM_MPI_HOSTS"
ENV_DAEMONS = "YARNAM_MPI_DAEMONS"


class LaunchError(Exception):
    """The line to print before the end."""


def key_of(credentials: bytes) -> bytes:
    return strangers.key_of(b"yarnam-mpi-launch", credentials)


def slots(hosts: str) -> dict[str, int]:
    """``worker-0:2,worker-1:2`` as a mapping, in that order."""
    pairs = (each.rpartition(":") for each in hosts.split(",") if each)
    return {name: int(count) for name, _, count in pairs}


def own_name(env: Mapping[str, str]) -> str:
    return f"{env['YARNAM_ROLE']}-{env['YARNAM_TASK_INDEX']}"


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
            talk.settimeout(strangers.TALK_S)
            mac = strangers.proof(key, receive(talk, strangers.NONCE_BYTES), command)
            talk.sendall(mac + len(command).to_bytes(4, "big") + command)
            talk.settimeout(None)
            return receive(talk, 1)[0]
    except OSError as error:
        raise LaunchError(f"the launch daemon of {name} at {address}: {error}") from error


def connect(address: str) -> socket.socket:
    end = time.monotonic() + JOIN_S
    while True:
        try:
            talk = socket.create_connection(place_of(address), timeout=strangers.TALK_S)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(RETRY_S)
        else:
            talk.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return talk


# ---- the other tasks -----------------------------------------------------------------------------


class LaunchDaemon:
    """Runs the commands of those who have the key, until one of them ends it."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._end = threading.Event()
        self._strangers = strangers.Strangers()

    def serve(self, host: str, port: int) -> None:
        family = strangers.family_of(host)
        with socket.create_server((host, port), family=family) as server:
            self._strangers.serve(server, self._talk, self._end)

    def stop(self) -> None:
        self._end.set()

    def _talk(self, talk: socket.socket) -> None:
        with talk:
            talk.settimeout(strangers.TALK_S)
            try:
                try:
                    command = self._command(talk)
                finally:
                    self._strangers.dismiss(talk)
                if command is None:
                    return
                code = 0 if not command else self._run(command, talk)
                talk.sendall(bytes([code]))
            except OSError as error:
                self._strangers.warn(f"a caller of the launch daemon: {error}")
                return
        if not command:
            self.stop()

    def _command(self, talk: socket.socket) -> bytes | None:
        """``None`` if the caller does not have the key."""
        nonce = strangers.challenge(talk)
        mac = receive(talk, strangers.KEY_BYTES)
        size = int.from_bytes(receive(talk, 4), "big")
        if size > MAX_COMMAND:
            return None
        command = receive(talk, size)
        if not strangers.is_proof(mac, self._key, nonce, command):
            self._strangers.warn("the launch daemon has refused a caller without the job's key")
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
        key_file = strangers.credentials_file()
        if os.environ["YARNAM_GROUP_RANK"] == "0":
            return run_command(rest, key_file)
        return run_daemon(key_file)
    except LaunchError as error:
        warn(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
