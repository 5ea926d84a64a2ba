"""How the ranks of a gang wait for each other: small, real, and broken when one of them is gone."""

from __future__ import annotations

import multiprocessing.connection
import socket
import time
from collections.abc import Callable

LIMIT_S = 240.0


def connect(port: int) -> socket.socket:
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def by_socket(rank: int, size: int, port: int) -> Callable[[], object]:
    """A star of plain sockets; a peer that is gone is a reset or a ConnectionError."""
    links = []
    if rank == 0:
        server = socket.create_server(("127.0.0.1", port))
        links = [server.accept()[0] for _ in range(size - 1)]
    else:
        links = [connect(port)]

    def reduce() -> None:
        for link in links:
            link.sendall(b"x" * 1000)
        for link in links:
            left = 1000
            while left:
                data = link.recv(left)
                if not data:
                    raise ConnectionError("Connection closed by peer")
                left -= len(data)

    return reduce


def by_connection(rank: int, size: int, port: int) -> Callable[[], object]:
    """Python's own message connections; a peer that is gone is an EOFError."""
    if rank == 0:
        listener = multiprocessing.connection.Listener(("127.0.0.1", port), backlog=size)
        links = [listener.accept() for _ in range(size - 1)]
    else:
        connect_until = time.monotonic() + LIMIT_S
        while True:
            try:
                links = [multiprocessing.connection.Client(("127.0.0.1", port))]
                break
            except ConnectionRefusedError:
                if time.monotonic() > connect_until:
                    raise
                time.sleep(0.02)

    def reduce() -> None:
        for link in links:
            link.send([1.0] * 10)
        for link in links:
            link.recv()

    return reduce


def by_grpc(rank: int, size: int, port: int) -> Callable[[], object]:
    """A gRPC barrier at rank 0; there a missing peer is a time-out."""
    import threading
    from concurrent.futures import ThreadPoolExecutor

    import grpc

    barrier = threading.Barrier(size)

    def arrive(request: bytes, context: grpc.ServicerContext) -> bytes:
        barrier.wait(timeout=LIMIT_S)
        return b""

    if rank == 0:
        server = grpc.server(ThreadPoolExecutor(size + 2))
        handler = grpc.unary_unary_rpc_method_handler(arrive)
        service = grpc.method_handlers_generic_handler("gang", {"arrive": handler})
        server.add_generic_rpc_handlers((service,))
        server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()

        def wait() -> None:
            barrier.wait(timeout=LIMIT_S)
            assert server is not None

        return wait
    call = grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary("/gang/arrive")
    return lambda: call(b"", wait_for_ready=True, timeout=2 * LIMIT_S)


def by_jax(rank: int, size: int, port: int) -> Callable[[], object]:
    """jax.distributed with gloo."""
    import jax
    import numpy as np
    from jax.experimental import multihost_utils

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", size, rank, initialization_timeout=int(LIMIT_S))
    return lambda: multihost_utils.process_allgather(np.ones(4))


COLLECTIVES = {
    "socket": by_socket,
    "connection": by_connection,
    "grpc": by_grpc,
    "jax": by_jax,
}
