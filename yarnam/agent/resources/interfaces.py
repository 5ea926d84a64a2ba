"""The network interface that carries an address of this node."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from array import array
from pathlib import Path

_SIOCGIFCONF = 0x8912
_IFREQ_BYTES = 40
"""``struct ifreq`` of 64-bit Linux: 16 of the name, then a ``sockaddr_in``."""
_MAX_ADDRESSES = 1024
_INET6 = Path("/proc/net/if_inet6")
LOOPBACK = "lo"


def interface_of(address: str) -> str:
    """Its name; empty when no interface has the address. The whole of 127.0.0.0/8 is loopback's."""
    wanted = ipaddress.ip_address(address.partition("%")[0])
    if wanted.is_loopback:
        return LOOPBACK
    try:
        found = _ipv4() if wanted.version == 4 else _ipv6()
    except OSError:
        return ""
    return found.get(wanted.packed, "")


def _ipv4() -> dict[bytes, str]:
    """Further addresses of an interface too, whose labels are its name and a suffix: ``eth0:1``."""
    room = array("B", bytes(_IFREQ_BYTES * _MAX_ADDRESSES))
    where, size = room.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe.fileno(), _SIOCGIFCONF, struct.pack("iP", size, where))
    filled = struct.unpack("iP", answer)[0]
    found: dict[bytes, str] = {}
    for start in range(0, filled, _IFREQ_BYTES):
        entry = room[start : start + _IFREQ_BYTES].tobytes()
        label = entry[:16].partition(b"\0")[0].decode("ascii", "replace")
        found[entry[20:24]] = label.partition(":")[0]
    return found


def _ipv6() -> dict[bytes, str]:
    lines = (line.split() for line in _INET6.read_text().splitlines())
    return {bytes.fromhex(fields[0]): fields[-1] for fields in lines}


def interface_environment(interface: str, more: tuple[str, ...]) -> dict[str, str]:
    """By what libraries choose an interface: NCCL, gloo, torch's RPC, and those in ``more``."""
    if not interface:
        return {}
    values = {
        # NCCL takes a name alone for a prefix.
        "NCCL_SOCKET_IFNAME": f"={interface}",
        "GLOO_SOCKET_IFNAME": interface,
        "TP_SOCKET_IFNAME": interface,
        **dict.fromkeys(more, interface),
    }
    if interface == LOOPBACK:
        # PRRTE ends with "No network interfaces were found for out-of-band communications".
        values.pop("PRTE_MCA_prte_if_include", None)
    return values
