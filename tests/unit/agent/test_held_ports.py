"""Who can listen on a port that an agent holds, before the launch and after it."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from yarnam.agent.resources.held_ports import HeldPorts

HERE = "127.0.0.1"
NOBODY = 65534
ADDRESS, PORT = socket.SO_REUSEADDR, socket.SO_REUSEPORT
FLAGS = [(), (ADDRESS,), (PORT,), (ADDRESS, PORT)]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user")


def server(port: int, flags: tuple[int, ...]) -> socket.socket:
    sock = socket.socket()
    for flag in flags:
        sock.setsockopt(socket.SOL_SOCKET, flag, 1)
    try:
        sock.bind((HERE, port))
        sock.listen()
    except OSError:
        sock.close()
        raise
    return sock


def can_listen(port: int, flags: tuple[int, ...]) -> bool:
    try:
        server(port, flags).close()
    except OSError:
        return False
    return True


def as_nobody(work: Callable[[], int]) -> int:
    """In a process of another user; fork, because that user may not read this Python's files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of other tests
        pid = os.fork()
    if pid == 0:
        try:
            os.setuid(NOBODY)
            os._exit(work())
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def stranger_can_listen(port: int, flags: tuple[int, ...]) -> bool:
    return as_nobody(lambda: int(can_listen(port, flags))) == 1


@pytest.fixture
def held() -> Iterator[HeldPorts]:
    ports = HeldPorts(HERE)
    ports.hold(["coordinator", "web.0"])
    yield ports
    ports.release_all()


@pytest.mark.parametrize("flags", FLAGS)
def test_nobody_listens_on_a_held_port_before_the_launch(
    held: HeldPorts, flags: tuple[int, ...]
) -> None:
    assert not can_listen(held.numbers["web.0"], flags)


@needs_root
@pytest.mark.parametrize("flags", FLAGS)
def test_no_other_user_listens_on_a_held_port_before_the_launch(
    held: HeldPorts, flags: tuple[int, ...]
) -> None:
    assert not stranger_can_listen(held.numbers["web.0"], flags)


@needs_root
@pytest.mark.parametrize("flags", FLAGS)
def test_no_other_user_ever_takes_a_port_of_grpc(held: HeldPorts, flags: tuple[int, ...]) -> None:
    held.let_servers_in({"coordinator"})
    assert not stranger_can_listen(held.numbers["coordinator"], flags)


def test_after_the_launch_a_server_needs_one_of_the_flags(held: HeldPorts) -> None:
    held.let_servers_in({"coordinator"})
    grpc, other = held.numbers["coordinator"], held.numbers["web.0"]
    assert [can_listen(grpc, flags) for flags in FLAGS] == [False, False, True, True]
    assert [can_listen(other, flags) for flags in FLAGS] == [False, True, True, True]


@pytest.mark.parametrize("flags", FLAGS)
def test_ports_held_again_are_closed_until_the_next_launch(
    held: HeldPorts, flags: tuple[int, ...]
) -> None:
    """Although the connections of the processes before still linger on them."""
    held.let_servers_in(())
    port = held.numbers["web.0"]
    with closing(server(port, (ADDRESS,))) as first:
        held.release_listening()
        with socket.create_connection((HERE, port)) as client:
            first.accept()[0].close()  # closes first: TIME_WAIT is on the server's side
            client.recv(1)
    assert held.hold_again() == ()
    assert held.held == ("coordinator", "web.0")
    assert not can_listen(port, flags)


@needs_root
def test_another_user_who_listens_is_named_and_the_port_stays_held(held: HeldPorts) -> None:
    """What is left: SO_REUSEADDR asks for no user. He is at least noticed."""
    held.let_servers_in({"coordinator"})
    port = held.numbers["web.0"]
    ready, written = os.pipe()
    wait, done = os.pipe()

    def listen() -> int:
        os.close(done)
        with closing(server(port, (ADDRESS,))):
            os.write(written, b"x")
            os.read(wait, 1)
        return 0

    assert held.taken_by_others() == {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            os.setuid(NOBODY)
            os._exit(listen())
        finally:
            os._exit(99)
    try:
        assert os.read(ready, 1) == b"x"
        assert held.taken_by_others() == {"web.0": NOBODY}
        assert held.release_listening() == ((), {"web.0": NOBODY})
        assert "web.0" in held.held
    finally:
        os.close(done)
        os.waitpid(pid, 0)
        for fd in (ready, written, wait):
            os.close(fd)


def test_a_port_with_connections_of_before_is_not_free_for_a_server_without_flags() -> None:
    ports = HeldPorts(HERE)
    ports.hold(["bare"])
    assert not ports.is_free("bare"), "the agent has it"
    ports.release(["bare"])
    assert ports.is_free("bare")
    number = ports.numbers["bare"]
    with closing(server(number, ())) as listening:
        assert not ports.is_free("bare")
        with closing(socket.create_connection((HERE, number))) as client:
            listening.accept()[0].close()
            assert client.recv(1) == b""
    # Its side closed first: TIME_WAIT.
    assert not ports.is_free("bare")
    assert not can_listen(number, (ADDRESS,)), "its socket had no flags either"
    assert ports.hold_again() == ("bare",)
