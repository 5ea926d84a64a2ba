"""Which interface carries an address, and who is told of it."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from yarnam.agent.resources.interfaces import interface_environment, interface_of


@pytest.mark.parametrize("address", ["127.0.0.1", "127.3.0.7", "::1"])
def test_all_loopback_addresses_are_of_one_interface(address: str) -> None:
    assert interface_of(address) == "lo"


def test_an_address_that_no_interface_has() -> None:
    assert interface_of("198.51.100.77") == ""
    assert interface_of("2001:db8::77") == ""


@pytest.mark.skipif(shutil.which("ip") is None, reason="iproute2 tells what there is")
def test_every_address_of_this_machine_has_its_interface() -> None:
    shown = subprocess.run(["ip", "-j", "addr"], capture_output=True, check=True).stdout
    for interface in json.loads(shown):
        for one in interface["addr_info"]:
            if not one["local"].startswith(("127.", "fe80")):
                assert interface_of(one["local"]) == interface["ifname"].partition("@")[0]


def test_nccl_takes_exactly_that_interface() -> None:
    assert interface_environment("eth0", ("HYDRA_IFACE",)) == {
        "NCCL_SOCKET_IFNAME": "=eth0",
        "GLOO_SOCKET_IFNAME": "eth0",
        "TP_SOCKET_IFNAME": "eth0",
        "HYDRA_IFACE": "eth0",
    }
    assert interface_environment("", ("HYDRA_IFACE",)) == {}


def test_prrte_is_not_given_loopback() -> None:
    name = "PRTE_MCA_prte_if_include"
    assert interface_environment("eth0", (name,))[name] == "eth0"
    assert name not in interface_environment("lo", (name,))
