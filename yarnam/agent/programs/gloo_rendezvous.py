"""The store through which Horovod's processes find each other on gloo, in place of horovodrun's.

As ``horovod/runner/http/http_server.py`` has it: PUT and GET of ``/SCOPE/KEY``, 404 for a key that
is not there yet, DELETE of the own rank when a process has found all others. Each process puts one
key into a scope, and none leaves it before all have: when all keys have been deleted the scope is
over, and may be used again.

With ``elastic`` it is the driver of Horovod's elastic mode too (``horovod/runner/elastic``). Who
belongs to the gang is in a file, which the agent writes anew each time that changes. A process asks
for its rank (GET ``/rank_and_size/HOST:LOCAL_RANK``), when it starts and when Horovod forms the
group anew, and is answered when all are there: those of the last round that still belong to the
gang, and whoever else has asked by then. Where somebody has come or has to go in between, the
process of rank 0 is told so at the address that it has put to ``/worker_addresses``; all leave
their loop together then, at their next commit, and a process that does not belong to the gang any
more gets no rank and ends. Each round is written to a file, which the agent reads.

A program of its own, which imports nothing of yarnam or of Horovod.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import pickletools
import socket
import struct
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yarnam.agent.programs import strangers
else:
    sys.path.append(str(Path(__file__).parent))  # an isolated interpreter leaves it out
    import strangers

MAX_VALUE = 4 << 20
"""Bytes. A process puts one address of some 130 bytes for each other one: 30,000 of them."""
MAX_BYTES = 2 << 30
"""Bytes of all values together: 4,000 processes."""
ENTRY_BYTES = 256
"""Memory of an entry beside its texts and its value."""
REQUEST_S = 20.0
MAX_CALLERS = 512
"""Requests at a time that have not been sent to their end. Horovod's take milliseconds, and have no
key: the caller that has taken the longest time gives way. (Horovod asks again.)"""
MAX_UNLISTED = 1024
"""Processes that wait for a rank, and are not of the gang: more than a gang grows by at a time."""
ROUND_S = 600.0
"""For all of a round to ask for their ranks: as long as Horovod's own driver waits for hosts."""
NOTIFY_S, NOTIFY_AGAIN_S = 5.0, 10.0
"""For rank 0 to be told that somebody has come or has to go; and when it is told again, as it
forgets that while it forms a group."""
LIST_POLL_S = 0.5
MAX_SERVICE = 64 << 10
"""Bytes of an address with its key."""

ENV_MEMBERS = "YARNAM_MEMBERS_FILE"
GROUP_FILE = ".yarnam-group"
"""Beside the list of members: the number of the last round, and how many hosts are in it."""
RANKS, SERVICES = "rank_and_size", "worker_addresses"
NO_RANK = ",".join(["-1"] * 6)
"""Horovod's word for a process that does not belong to the job any more."""
MIXED = 3
"""Horovod's word for hosts that were removed and added. After a mere removal its processes do not
synchronize their state; those that leave their loop by an error do, and would wait for them."""

INTEGERS = frozenset({"BININT", "BININT1", "BININT2"})
BYTE_STRINGS = frozenset({"BINBYTES", "SHORT_BINBYTES"})
"""Codes of a pickle."""

Slot = tuple[str, int]
"""A host and a local rank."""


class Scopes:
    """Values by scope and key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[str, bytes]] = {}
        self._left: dict[str, set[str]] = {}
        self._bytes = 0

    def get(self, scope: str, key: str) -> bytes | None:
        with self._lock:
            return self._values.get(scope, {}).get(key)

    def put(self, scope: str, key: str, value: bytes) -> bool:
        """``False`` if there is no room."""
        with self._lock:
            values = self._values.get(scope, {})
            replaced = cost_of(scope, key, values[key]) if key in values else 0
            size = self._bytes + cost_of(scope, key, value) - replaced
            if size > MAX_BYTES:
                return False
            self._bytes = size
            self._values.setdefault(scope, {})[key] = value
            return True

    def leave(self, scope: str, key: str) -> None:
        with self._lock:
            values = self._values.get(scope, {})
            if key not in values:
                return
            left = self._left.setdefault(scope, set())
            left.add(key)
            if left >= values.keys():
                self._bytes -= sum(cost_of(scope, key, value) for key, value in values.items())
                del self._values[scope]
                del self._left[scope]

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._left.clear()
            self._bytes = 0


def cost_of(scope: str, key: str, value: bytes) -> int:
    return ENTRY_BYTES + len(scope) + len(key) + len(value)


class Membership:
    """Who belongs to the gang, who has asked for a rank, and the ranks of the last round."""

    def __init__(self, scopes: Scopes, group_file: Path | None = None) -> None:
        self._scopes = scopes
        self._group_file = group_file
        self._changed = threading.Condition()
        self._hosts: dict[str, int] = {}
        self._known: set[str] = set()
        """All that have ever belonged to it."""
        self._here: set[Slot] = set()
        self._calls: dict[Slot, object] = {}
        """The calls that wait for a rank, oldest first. A process waits once."""
        self._ranks: dict[Slot, str] = {}
        self._round = 0
        self._services: dict[Slot, Service] = {}
        self._notified = 0
        self._notified_at_s = 0.0

    def take_list(self, hosts: Mapping[str, int]) -> None:
        """From now on these belong to the gang, in this order: hosts and their processes."""
        with self._changed:
            self._hosts = dict(hosts)
            self._known |= hosts.keys()
            self._here = {s for s in self._here if s[0] in hosts or s[0] not in self._known}
            if not self._form() and self._has_gone():
                self._notify()
            self._changed.notify_all()

    def remind(self) -> None:
        """Notify rank 0 again where somebody has to go who has not."""
        with self._changed:
            is_due = time.monotonic() >= self._notified_at_s + NOTIFY_AGAIN_S
            if is_due and self._has_gone():
                self._notify()

    def _has_gone(self) -> bool:
        """Whether somebody of the last round does not belong to the gang any more."""
        return any(host not in self._hosts for host, _ in self._ranks)

    def take_service(self, slot: Slot, service: Service) -> None:
        with self._changed:
            if slot[0] in self._hosts:
                self._services[slot] = service

    def rank_of(self, slot: Slot) -> str | None:
        """As Horovod writes it, once the round is there; ``None`` if it has not come in time.
        One that is not listed yet waits for that too."""
        end = time.monotonic() + ROUND_S
        with self._changed:
            last = self._round
            call = self._admit(slot)
            self._form()
            notified_at = 0.0
            while self._round == last:
                if self._calls.get(slot) is not call:
                    return None  # it has asked again, or had to give way
                if slot[0] in self._known and slot[0] not in self._hosts:
                    self._end_call(slot)
                    return NO_RANK
                now = time.monotonic()
                if now >= end:
                    self._end_call(slot)
                    return None
                if self._ranks and slot not in self._ranks and now >= notified_at + NOTIFY_AGAIN_S:
                    notified_at = now
                    self._notify()
                self._changed.wait(min(end - now, NOTIFY_AGAIN_S))
            return self._ranks.get(slot, NO_RANK)

    def _admit(self, slot: Slot) -> object:
        """Of callers that are not of the gang the one that has waited for the longest time gives
        way: nobody knows who they are."""
        self._calls.pop(slot, None)
        self._here.add(slot)
        call = self._calls[slot] = object()
        unlisted = [each for each in self._calls if each[0] not in self._hosts]
        if len(unlisted) > MAX_UNLISTED:
            self._end_call(unlisted[0])
        self._changed.notify_all()
        return call

    def _end_call(self, slot: Slot) -> None:
        self._here.discard(slot)
        self._calls.pop(slot, None)

    def _form(self) -> bool:
        """A round of all that are here, if all are that have to be."""
        listed = [(host, n) for host, count in self._hosts.items() for n in range(count)]
        awaited = [slot for slot in listed if slot in self._ranks] or listed
        here = [slot for slot in listed if slot in self._here]
        if not here or not self._here.issuperset(awaited):
            return False
        self._scopes.clear()
        self._ranks = ranks_of(here)
        self._services = {s: one for s, one in self._services.items() if s in self._ranks}
        self._here.clear()
        self._calls.clear()
        self._round += 1
        self._write_group()
        self._changed.notify_all()
        return True

    def _write_group(self) -> None:
        if self._group_file is None:
            return
        draft = self._group_file.with_name(f"{self._group_file.name}.draft")
        try:
            draft.write_text(f"{self._round} {len({host for host, _ in self._ranks})}\n")
            draft.replace(self._group_file)
        except OSError as error:
            strangers.warn(f"the group of the processes cannot be reported: {error}")

    def _notify(self) -> None:
        self._notified_at_s = time.monotonic()
        service = self._services.get(next(iter(self._ranks)))
        if service is None:
            return
        # Horovod drops a message that is not newer than the last.
        self._notified = max(self._notified + 1, int(time.time()))
        message = hosts_updated(self._notified, MIXED)
        threading.Thread(target=service.notify, args=(message,), daemon=True).start()


def ranks_of(here: Sequence[Slot]) -> dict[Slot, str]:
    """Rank and size of each: of all, within its host, and among those with its local rank."""
    found: dict[Slot, str] = {}
    for rank, (host, local) in enumerate(here):
        own = [slot for slot in here if slot[0] == host]
        across = [slot for slot in here if slot[1] == local]
        numbers = (own.index((host, local)), len(own), across.index((host, local)), len(across))
        found[host, local] = ",".join(map(str, (rank, len(here), *numbers)))
    return found


class Service:
    """Where a process hears of changes (``horovod/runner/common/util/network.py``)."""

    def __init__(self, host: str, port: int, key: bytes) -> None:
        self._address = host, port
        self._key = key

    def notify(self, message: bytes) -> None:
        """It answers when it has taken it."""
        mac = hmac.new(self._key, message, hashlib.sha256).digest()
        try:
            with socket.create_connection(self._address, timeout=NOTIFY_S) as talk:
                talk.sendall(mac + struct.pack("i", len(message)) + message)
                while talk.recv(MAX_SERVICE):  # to its end: Horovod would write of a lost caller
                    pass
        except OSError:
            return  # another message follows while somebody waits for that


def hosts_updated(timestamp: int, what: int) -> bytes:
    """A pickle of ``horovod.runner.elastic.worker.HostsUpdatedRequest``, without Horovod."""
    return (
        b"\x80\x02chorovod.runner.elastic.worker\nHostsUpdatedRequest\n)\x81}("
        b"X\x09\0\0\0timestampI%d\nX\x03\0\0\0resI%d\nub." % (timestamp, what)
    )


def service_of(value: bytes, host: str) -> Service | None:
    """From what a process puts there: a pickle of its addresses by interface, all with one port,
    and of its key. Nothing of it is loaded. It is called back where it came from, and nowhere
    else."""
    try:
        found = list(pickletools.genops(base64.b64decode(value, validate=True)))
    except Exception:  # noqa: BLE001 - bytes that are not a pickle can fail in any way
        return None
    ports = {one for code, one, _ in found if code.name in INTEGERS and isinstance(one, int)}
    keys = [one for code, one, _ in found if code.name in BYTE_STRINGS and isinstance(one, bytes)]
    if len(ports) != 1 or len(keys) != 1 or not 0 < (port := ports.pop()) < 1 << 16:
        return None
    return Service(host, port, keys[0])


def slot_of(key: str) -> Slot | None:
    """``HOST:LOCAL_RANK``."""
    host, _, local = key.rpartition(":")
    is_number = local.isascii() and local.isdigit() and len(local) < 6
    return (host, int(local)) if host and is_number else None


class Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_S
    scopes = Scopes()
    membership: Membership | None = None
    """``None`` if the gang's processes are the same from its start to its end."""

    def do_GET(self) -> None:
        found = self._scope_and_key()
        if found and found[0] == RANKS and self.membership is not None:
            self._give_rank(self.membership, found[1])
            return
        value = self.scopes.get(*found) if found else None
        if value is None:
            self._respond(404 if found else 400)
        else:
            self._respond(200, value)

    def do_PUT(self) -> None:
        found, size = self._scope_and_key(), self.headers.get("Content-Length", "")
        if not found or not size.isascii() or not size.isdigit() or int(size) > MAX_VALUE:
            self.close_connection = True
            self._respond(400)
            return
        value = self.rfile.read(int(size))
        if len(value) < int(size):
            return
        if found[0] == SERVICES and self.membership is not None:
            self._take_service(self.membership, found[1], value)
        else:
            self._respond(200 if self.scopes.put(*found, value) else 507)

    def do_DELETE(self) -> None:
        if found := self._scope_and_key():
            self.scopes.leave(*found)
        self._respond(200 if found else 400)

    def _give_rank(self, membership: Membership, key: str) -> None:
        slot = slot_of(key)
        if slot is None:
            self._respond(400)
            return
        if isinstance(self.server, RendezvousServer):
            self.server.strangers.dismiss(self.connection)  # it waits for others, not for itself
        ranks = membership.rank_of(slot)
        self._respond(503 if ranks is None else 200, (ranks or "").encode())

    def _take_service(self, membership: Membership, key: str, value: bytes) -> None:
        slot = slot_of(key)
        fits = len(value) <= MAX_SERVICE
        service = service_of(value, str(self.client_address[0])) if fits else None
        if slot is None or service is None:
            self._respond(400)
            return
        membership.take_service(slot, service)
        self._respond(200)

    def _scope_and_key(self) -> tuple[str, str] | None:
        first, *parts = self.path.split("/")
        return None if first or len(parts) != 2 else (parts[0], parts[1])

    def _respond(self, code: int, value: bytes = b"") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(value)))
        self.end_headers()
        self.wfile.write(value)

    def log_message(self, *_: object) -> None:
        """Hundreds a second while processes wait for each other."""


def server(
    host: str, port: int, *, is_elastic: bool = False, group_file: Path | None = None
) -> RendezvousServer:
    """One that has not begun to serve."""
    return RendezvousServer(host, port, is_elastic=is_elastic, group_file=group_file)


class RendezvousServer(ThreadingTCPServer):
    """Not an HTTPServer: that asks DNS for its own name."""

    request_queue_size = 1024
    allow_reuse_address = daemon_threads = True

    def __init__(self, host: str, port: int, *, is_elastic: bool, group_file: Path | None) -> None:
        self.address_family = strangers.family_of(host)
        self.strangers = strangers.Strangers(MAX_CALLERS)
        scopes = Scopes()
        self.membership = Membership(scopes, group_file) if is_elastic else None
        own = type("OwnHandler", (Handler,), {"scopes": scopes, "membership": self.membership})
        super().__init__((host, port), own)

    def get_request(self) -> tuple[Any, Any]:
        try:
            talk, address = super().get_request()
        except OSError as error:  # no descriptor is free: others may give some back
            self.strangers.warn(f"the rendezvous cannot be called: {error}")
            time.sleep(strangers.RETRY_S)
            raise
        self.strangers.admit(talk)
        return talk, address

    def shutdown_request(self, request: Any) -> None:
        self.strangers.dismiss(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.strangers.warn(f"a caller of the rendezvous: {sys.exc_info()[1]}")


def follow_list(path: Path, membership: Membership) -> None:
    """A line for each host: its name and how many processes it has, with a colon between."""
    seen = ""
    while True:
        try:
            text = path.read_text()
        except OSError:
            text = seen
        if text != seen:
            seen = text
            pairs = (line.rpartition(":") for line in text.splitlines())
            membership.take_list({host: int(count) for host, _, count in pairs})
        membership.remind()
        time.sleep(LIST_POLL_S)


def main(words: Sequence[str]) -> int:
    """``HOST PORT [elastic]``; ends by a signal."""
    host, port, *mode = words
    if mode:
        members = Path(os.environ[ENV_MEMBERS])
        group_file = members.with_name(GROUP_FILE)
        serving = server(host, int(port), is_elastic=True, group_file=group_file)
        arguments = (members, serving.membership)
        threading.Thread(target=follow_list, args=arguments, daemon=True).start()
    else:
        serving = server(host, int(port))
    serving.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
