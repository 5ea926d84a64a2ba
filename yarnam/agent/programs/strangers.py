"""Doors of the programs around a job's command, at which anybody in the network can knock.

A caller is a stranger until it has shown the job's key, or asked what it came for. Strangers are
few at a time: each takes a descriptor and a thread.

It lies beside the programs that use it, imports nothing of yarnam, and loads in a millisecond.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

CREDENTIALS = "yarnam-credentials.pem"
"""``LOCAL_CREDENTIALS_FILE``, in the container's directory; a process starts in a folder there.
Every container of the job has it, and nobody else can read it."""
NONCE_BYTES = KEY_BYTES = 32
MAX_STRANGERS = 64
"""At a time. A caller with the key shows it within milliseconds."""
MAX_WARNINGS = 20
"""Of callers; anybody could fill the log."""
TALK_S = 20.0
"""For one side of an exchange to send what it has to."""
RETRY_S = 0.25
POLL_S = 0.1


def warn(text: str) -> None:
    sys.stderr.write(f"yarnam: {text}\n")
    sys.stderr.flush()


def place_of(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def credentials_file() -> Path:
    return Path.cwd().parent / CREDENTIALS


def key_of(purpose: bytes, credentials: bytes) -> bytes:
    """Not the credentials themselves: who learns this key can use one door, and no more."""
    return hmac.digest(purpose, credentials, "sha256")


def receive(talk: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = talk.recv(size - len(found))
        if not more:
            raise ConnectionResetError("closed the connection before the end")
        found += more
    return found


def challenge(talk: socket.socket) -> bytes:
    """Send a nonce, which the caller answers with its proof."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    talk.sendall(nonce)
    return nonce


def proof(key: bytes, nonce: bytes, message: bytes = b"") -> bytes:
    """What only those with the key can make of a nonce and what they say."""
    return hmac.new(key, nonce + message, hashlib.sha256).digest()


def is_proof(mac: bytes, key: bytes, nonce: bytes, message: bytes = b"") -> bool:
    return hmac.compare_digest(mac, proof(key, nonce, message))


class Strangers:
    """The callers that are strangers still. Safe to share between threads."""

    def __init__(self, most: int = MAX_STRANGERS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._talks: list[socket.socket] = []
        self._warnings = 0

    def admit(self, talk: socket.socket) -> None:
        """The one that has been a stranger for the longest time gives way."""
        with self._lock:
            self._talks.append(talk)
            if len(self._talks) > self._most:
                with suppress(OSError):  # its thread closes it
                    self._talks.pop(0).shutdown(socket.SHUT_RDWR)

    def dismiss(self, talk: socket.socket) -> None:
        """The connection no longer counts as a stranger's, or has ended."""
        with self._lock, suppress(ValueError):
            self._talks.remove(talk)

    def warn(self, text: str) -> None:
        self._warnings += 1
        if self._warnings <= MAX_WARNINGS:
            warn(text)

    def serve(
        self, server: socket.socket, handle: Callable[[socket.socket], None], end: threading.Event
    ) -> None:
        """A thread for each caller, whose ``handle`` closes the connection or keeps it. Until
        ``end`` is set: without free descriptors it waits, since others may give some back."""
        server.settimeout(POLL_S)
        while not end.is_set():
            talk = None
            try:
                talk, _ = server.accept()
                self.admit(talk)
                threading.Thread(target=handle, args=(talk,), daemon=True).start()
            except TimeoutError:
                continue
            except (OSError, RuntimeError) as error:  # no descriptor, or no thread, is free
                if talk is not None:
                    self.dismiss(talk)
                    talk.close()
                self.warn(f"cannot be called: {error}")
                end.wait(RETRY_S)
