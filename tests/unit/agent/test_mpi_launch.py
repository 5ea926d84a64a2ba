"""The launch daemon of MPI's tasks and who may use it, and what mpirun is told."""

from __future__ import annotations

import hashlib
import hmac
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.unit.agent.doors import take_descriptors, until
from yarnam.agent.programs import mpi_launch, strangers
from yarnam.wire.protocol import LOCAL_CREDENTIALS_FILE

KEY = mpi_launch.key_of(b"credentials")


@pytest.fixture
def address() -> Iterator[str]:
    """Of a launch daemon, which is ended after the test."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    daemon = mpi_launch.LaunchDaemon(KEY)
    serving = threading.Thread(target=daemon.serve, args=("127.0.0.1", port))
    serving.start()
    yield f"127.0.0.1:{port}"
    daemon.stop()
    serving.join(10)
    assert not serving.is_alive()


def call(address: str, command: str, key: bytes = KEY) -> int:
    return mpi_launch.call("worker-1", address, key, command.encode())


def test_commands_run_until_one_ends_the_daemon(address: str, tmp_path: Path) -> None:
    assert call(address, f"echo here > {tmp_path}/seen; exit 7") == 7
    assert (tmp_path / "seen").read_text() == "here\n"
    assert call(address, "kill -9 $$") == 137
    assert call(address, "") == 0
    until(lambda: is_refused(address))


def is_refused(address: str) -> bool:
    with socket.socket() as probe:
        return bool(probe.connect_ex(strangers.place_of(address)))


def test_who_lacks_the_key_starts_nothing(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(mpi_launch.LaunchError, match=r"worker-1 .*closed the connection"):
        call(address, f"touch {tmp_path}/seen", key=mpi_launch.key_of(b"others"))
    assert not (tmp_path / "seen").exists()
    assert "refused a caller" in capsys.readouterr().err
    assert call(address, "exit 0") == 0


def test_what_was_sent_once_is_of_no_use_again(address: str, tmp_path: Path) -> None:
    command = f"touch {tmp_path}/seen".encode()
    with mpi_launch.connect(address) as talk:
        strangers.receive(talk, strangers.NONCE_BYTES)
        mac = hmac.new(KEY, b"\0" * strangers.NONCE_BYTES + command, hashlib.sha256).digest()
        talk.sendall(mac + len(command).to_bytes(4, "big") + command)
        assert talk.recv(1) == b""
    assert not (tmp_path / "seen").exists()


def test_a_length_without_end_is_not_waited_for(address: str) -> None:
    with mpi_launch.connect(address) as talk:
        strangers.receive(talk, strangers.NONCE_BYTES)
        talk.sendall(b"\0" * strangers.KEY_BYTES + b"\xff" * 4)
        talk.settimeout(10)
        assert talk.recv(1) == b""


def test_strangers_keep_nobody_out(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who only connects takes descriptors and threads; those with the key get through."""
    before = threading.active_count()
    with ExitStack() as stack:
        for _ in range(5 * strangers.MAX_STRANGERS):
            talk = stack.enter_context(mpi_launch.connect(address))
            assert talk.recv(1)
        assert call(address, f"touch {tmp_path}/seen") == 0
        until(lambda: threading.active_count() <= before + strangers.MAX_STRANGERS)
    assert (tmp_path / "seen").exists()
    assert len(capsys.readouterr().err.splitlines()) <= strangers.MAX_WARNINGS


def test_without_free_descriptors_it_waits_for_some(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_descriptors(monkeypatch)
    assert call(address, "exit 3") == 3


def test_a_command_ends_with_its_caller(address: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 1000".encode()
    with mpi_launch.connect(address) as talk:
        nonce = strangers.receive(talk, strangers.NONCE_BYTES)
        mac = hmac.new(KEY, nonce + command, hashlib.sha256).digest()
        talk.sendall(mac + len(command).to_bytes(4, "big") + command)
        until(pid.exists)
    child = int(pid.read_text())
    until(lambda: not Path(f"/proc/{child}").exists())


def environment(tasks: int, nodes: int) -> dict[str, str]:
    return {
        "YARNAM_ROLE": "worker", "YARNAM_TASK_INDEX": "0",
        "YARNAM_GROUP_WORLD_SIZE": str(tasks), "YARNAM_NUM_NODES": str(nodes),
        "YARNAM_MPI_HOSTS": ",".join(f"worker-{index}:2" for index in range(tasks)),
        "YARNAM_MPI_DAEMONS": ",".join(f"[fd00::{index}]:61001" for index in range(tasks)),
    }  # fmt: skip


def test_every_mpirun_finds_hosts_and_launcher(tmp_path: Path) -> None:
    env = environment(2, 2) | {"HYDRA_HOST_FILE": "/mine"}
    mpi_launch.write_files(tmp_path, env["YARNAM_MPI_HOSTS"])
    settings = mpi_launch.mpirun_settings(tmp_path, env)
    open_mpi = Path(settings["PRTE_MCA_prte_default_hostfile"])
    assert open_mpi.read_text() == "worker-0 slots=2\nworker-1 slots=2\n"
    assert settings["OMPI_MCA_orte_default_hostfile"] == str(open_mpi)
    hydra = Path(settings["I_MPI_HYDRA_HOST_FILE"])
    assert hydra.read_text() == "worker-0:2\nworker-1:2\n"
    assert "HYDRA_HOST_FILE" not in settings, "the job's own value wins"
    launchers = {
        settings[name]
        for name in (
            "PRTE_MCA_plm_ssh_agent",
            "OMPI_MCA_plm_rsh_agent",
            "HYDRA_LAUNCHER_EXEC",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC",
        )
    }
    (launcher,) = launchers
    assert "OMPI_MCA_btl" not in settings
    here = subprocess.run(
        [launcher, "worker-0", "echo", '"a  b"', "$YARNAM_ROLE"],
        env=env, cwd="/", capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert here.stdout == "a  b worker\n", "in its own task, without a daemon, through a shell"
    nowhere = subprocess.run(
        [launcher, "node9", "true"], env=env, capture_output=True, text=True, timeout=60
    )
    assert (nowhere.returncode, nowhere.stderr) == (
        1,
        "yarnam: there is no task node9; the tasks are worker-0, worker-1\n",
    )


def test_two_tasks_of_a_node_share_no_memory(tmp_path: Path) -> None:
    settings = mpi_launch.mpirun_settings(tmp_path, environment(3, 2))
    assert (settings["OMPI_MCA_btl"], settings["OMPI_MCA_pml"]) == ("tcp,self", "ob1")


def test_its_own_names_are_yarnams() -> None:
    assert strangers.CREDENTIALS == LOCAL_CREDENTIALS_FILE
    assert strangers.place_of("[fd00::1]:61001") == ("fd00::1", 61001)
