"""Settings, addresses, ports, environment text, metrics: the agent's parts without a process."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from hdfs_utils.errors import MalformedData
from yarnam.agent.keeper.keeper import pack, unpack
from yarnam.agent.launch.launch_plan import _without
from yarnam.agent.metrics_inbox import MetricsInbox, Sample, parse
from yarnam.agent.resources.held_ports import HeldPorts, candidate_ports, hex_address
from yarnam.agent.resources.node_address import node_address
from yarnam.agent.task_config import read_container_settings
from yarnam.core.model.ids import AskId
from yarnam.errors import BadConfig, Unavailable

CONTAINER = {
    "YARNAM_ASK": "a2.worker.7",
    "YARNAM_AM_ADDRESS": "10.0.0.9:4000",
    "CONTAINER_ID": "container_e17_1700000000000_0042_01_000003",
    "NM_HOST": "n1",
    "NM_PORT": "8041",
    "NM_HTTP_PORT": "8042",
    "LOG_DIRS": "/logs/a,/logs/b",
    "SKEIN_CONTAINER_ID": "w-any_3",
}


def test_settings_from_the_containers_environment() -> None:
    settings = read_container_settings(CONTAINER, Path("/c"))
    assert settings.ask == AskId(2, "worker", 7)
    assert settings.service == "w-any"
    assert settings.application == "application_1700000000000_0042"
    assert (settings.node_key, settings.nm_http_address) == ("n1:8041", "n1:8042")
    assert settings.log_directory == Path("/logs/a")
    assert read_container_settings({**CONTAINER, "YARNAM_SERVICE": "x"}, Path("/c")).service == "x"


@pytest.mark.parametrize("name", ["YARNAM_ASK", "YARNAM_AM_ADDRESS", "CONTAINER_ID", "NM_HOST"])
def test_missing_variable_is_named(name: str) -> None:
    env = {key: value for key, value in CONTAINER.items() if key != name}
    with pytest.raises(BadConfig, match=name):
        read_container_settings(env, Path("/c"))


def test_container_id_without_an_epoch() -> None:
    env = {**CONTAINER, "CONTAINER_ID": "container_1700000000000_0042_01_000003"}
    assert read_container_settings(env, Path("/c")).application == "application_1700000000000_0042"


def test_an_address_is_taken_as_it_is() -> None:
    assert node_address("127.3.2.1", "127.0.0.1:1") == "127.3.2.1"


def test_a_name_that_means_loopback_is_replaced_by_the_way_to_the_am() -> None:
    assert node_address("localhost", "127.0.0.1:9") == "127.0.0.1"
    assert node_address("no-such-name.invalid", "127.0.0.1:9") == "127.0.0.1"


def test_no_way_to_the_am_is_said() -> None:
    with pytest.raises(Unavailable, match="no route to the AM"):
        node_address("no-such-name.invalid", "also-none.invalid:9")


def test_addresses_as_the_kernel_writes_them() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        table = Path("/proc/net/tcp").read_text()
        assert f"{hex_address('127.0.0.1')}:{port:04X}" in table
    with socket.socket(socket.AF_INET6) as server:
        try:
            server.bind(("::ffff:127.0.0.1", 0))
        except OSError:
            return  # a machine without IPv6 has no such table
        server.listen()
        port = server.getsockname()[1]
        table = Path("/proc/net/tcp6").read_text()
        assert f"{hex_address('::ffff:127.0.0.1')}:{port:04X}" in table


def test_every_candidate_port_once_and_those_for_connections_last() -> None:
    ports = list(candidate_ports())
    assert len(ports) == len(set(ports)) == 65536 - 10240
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    inside = [low <= port <= high for port in ports]
    assert inside == sorted(inside)


def test_held_port_keeps_strangers_out_and_lets_servers_in() -> None:
    first, second = HeldPorts("127.0.0.1"), HeldPorts("127.0.0.1")
    first.hold(["a"])
    port = first.numbers["a"]
    second._numbers = {}
    holder = second._hold_one(iter([port, port + 1 if port < 65535 else port - 1]))
    assert holder.getsockname()[1] != port, "two holders never share"
    holder.close()
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", port))
    assert first.release_listening() == ((), {})
    first.let_servers_in(())
    with socket.create_server(("127.0.0.1", port)) as server:
        assert server.getsockname()[1] == port
        assert first.release_listening() == (("a",), {})
    assert first.held == ()
    assert first.numbers == {"a": port}


def test_a_listener_on_another_address_is_not_ours() -> None:
    held = HeldPorts("127.0.0.1")
    held.hold(["a"])
    held.let_servers_in(())
    with socket.create_server(("127.0.0.2", held.numbers["a"])):
        assert held.release_listening() == ((), {})
    held.release_all()


def test_no_free_port_is_said() -> None:
    with pytest.raises(Unavailable, match="no free port"):
        HeldPorts("127.0.0.1")._hold_one(iter([]))
    with pytest.raises(Unavailable, match=r"cannot bind 192\.0\.2\.1"):
        HeldPorts("192.0.2.1").hold(["a"])


def test_the_agents_own_libraries_leave_pythonpath() -> None:
    runtime = Path("/c/yarnam-runtime")
    mine = "/c/yarnam-runtime/lib:/opt/x::yarnam-runtime/lib:/c/yarnam-runtime:/c/other"
    assert _without(mine, runtime) == "/opt/x:/c/other"
    assert _without("", runtime) == ""


def test_messages_survive_any_cut() -> None:
    messages = [{"do": "start", "argv": ["ü\udcff", "x" * 100]}, {"do": "sweep"}]
    data = b"".join(pack(message) for message in messages)
    buffer, got = bytearray(), []
    for start in range(0, len(data), 7):
        buffer += data[start : start + 7]
        got += unpack(buffer)
    assert got == messages
    assert not buffer


def test_metrics_that_make_sense() -> None:
    text = '{"local_rank": 1, "at_s": 2.5, "step": 3, "total_steps": null, "values": {"loss": NaN}}'
    rank, sample = parse(text.encode())
    assert rank == 1
    assert (sample.at_s, sample.step, sample.total_steps) == (2.5, 3, None)
    assert sample.values[0][0] == "loss"
    assert not sample.is_ready
    assert parse(b'{"local_rank": 0, "at_s": 1, "values": {}, "ready": true}')[1].is_ready
    told = b'{"local_rank": 0, "at_s": 1, "values": {}, "raised": true}'
    assert parse(told, 77)[1].raised_pid == 77
    assert parse(told.replace(b"true", b"false"), 77)[1].raised_pid == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "\xff",
        '{"local_rank": "x", "at_s": 1, "values": {}}',
        '{"local_rank": 0, "at_s": 1, "values": []}',
        '{"local_rank": 0, "at_s": 1, "values": {}, "ready": "yes"}',
        '{"local_rank": 0, "at_s": 1, "step": "many", "values": {}}',
        '{"local_rank": 0, "at_s": 1, "step": Infinity, "values": {}}',
    ],
)
def test_metrics_that_make_none_are_dropped(text: str) -> None:
    with pytest.raises(MalformedData):
        parse(text.encode("latin-1"))


def test_numbers_that_do_not_fit_the_wire_are_left_out() -> None:
    values = {str(number): 1.0 for number in range(100)}
    text = json.dumps({"local_rank": 0, "at_s": 1, "step": 2**70, "values": values})
    _, sample = parse(text.encode())
    assert sample.step is None
    assert len(sample.values) == 64


def test_reports_of_no_use_are_warned_of_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A process that reports nonsense each step fills no log; another user's is no report."""
    samples: list[tuple[int, Sample]] = []
    inbox = MetricsInbox(lambda rank, sample: samples.append((rank, sample)))
    good = b'{"local_rank": 0, "at_s": 1.0, "values": {}}'
    for data in (b"nonsense", good, b"nonsense"):
        inbox._take(data, os.getuid())
    inbox._take(good, os.getuid() + 1)
    inbox._socket.close()
    assert len(samples) == 1
    assert inbox._rejections.total == 3
    (text,) = caplog.messages
    assert "a report of metrics" in text
    assert "yarnam.train.report" in text
