"""A holder of checkpoints in memory, with its sockets, in the process of the test."""

from __future__ import annotations

import os
import socket

from hdfs_utils.checkpoints import CheckpointMemory
from hdfs_utils.checkpoints.memory.memory_holder import HolderSettings, MemoryHolder
from yarnam.wire.credentials import new_credentials
from yarnam.wire.protocol import TLS_NAME

PEM = new_credentials().decode()


class Node:
    """A holder with its sockets, in this process."""

    def __init__(self, limit: int = 1 << 30, pem: str = PEM) -> None:
        local = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        name = f"yarnam-test-{os.urandom(8).hex()}"
        local.bind(f"\0{name}")
        local.listen()
        server = socket.socket()
        server.bind(("127.0.0.1", 0))
        server.listen()
        self.unix, self.tcp = f"@{name}", f"127.0.0.1:{server.getsockname()[1]}"
        settings = HolderSettings(
            local.detach(), server.detach(), pem, TLS_NAME, 1 << 40, limit, os.getpid()
        )
        self.holder = MemoryHolder(settings)
        self.store = self.holder.store
        self.holder.start()

    def memory(self) -> CheckpointMemory:
        return CheckpointMemory(self.unix)
