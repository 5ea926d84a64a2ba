"""Where this node can be reached by the other members of the gang."""

from __future__ import annotations

import ipaddress
import socket

from yarnam.errors import Unavailable


def node_address(node: str, am_address: str) -> str:
    """An IP address of this node for ``node`` (NM_HOST). Raises Unavailable.

    An address given as such is taken as it is. A name is resolved; many distributions let a
    machine's own name resolve to loopback, which is of no use to others: then it is the address
    from which this node speaks to the AM.
    """
    if is_address(node):
        return node
    try:
        found = socket.getaddrinfo(node, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return _towards(am_address, f"cannot resolve the node's name {node!r}: {error}")
    for family, _, _, _, place in found:
        address = str(place[0])
        usable = not ipaddress.ip_address(address.partition("%")[0]).is_loopback
        if usable and _is_mine(family, address):
            return address
    return _towards(am_address, f"the node's name {node!r} resolves to no address of the node")


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_mine(family: int, address: str) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def _towards(am_address: str, problem: str) -> str:
    host, _, port = am_address.rpartition(":")
    try:
        family, _, _, _, place = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            # Sends nothing: the kernel only chooses the route and with it our address.
            probe.connect(place)
            return str(probe.getsockname()[0])
    except (OSError, ValueError) as error:
        raise Unavailable(f"{problem}, and there is no route to the AM at {am_address}") from error
