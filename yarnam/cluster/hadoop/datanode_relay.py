"""Let each DataNode reach the NameNode from an address of its own.

The NameNode takes a DataNode's address from where its connection comes from. On loopback that is
127.0.0.1 for everybody, so all DataNodes would be one machine on one rack, and clients would look
for blocks where nobody listens. This relay stands between: it listens on each DataNode's address
and connects onwards *from* that address. Only heartbeats and block reports pass through it.

Run as a script (``relay.py TARGET_HOST:PORT LISTEN_HOST:PORT...``), on the standard library only.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys

HOLD_LIMIT_S = 30.0
_RETRY_S = 0.1
_BLOCK = 1 << 16

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while block := await reader.read(_BLOCK):
            writer.write(block)
            await writer.drain()
    except (ConnectionError, TimeoutError):
        pass
    finally:
        # One side closing ends both: a half-open RPC connection is of no use.
        writer.close()


async def _connect(target: tuple[str, int], source: str) -> _Streams | None:
    """Reach the NameNode, waiting a while for it. A DataNode whose connection is closed sleeps for
    five seconds before it asks again; one that is kept waiting continues as soon as the NameNode is
    there."""
    deadline = asyncio.get_running_loop().time() + HOLD_LIMIT_S
    while True:
        try:
            return await asyncio.open_connection(*target, local_addr=(source, 0))
        except OSError:
            if asyncio.get_running_loop().time() > deadline:
                return None
            await asyncio.sleep(_RETRY_S)


async def _serve(listen: str, port: int, target: tuple[str, int]) -> asyncio.Server:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward = await _connect(target, listen)
        if onward is None:
            writer.close()
            return
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(_pump(reader, onward[1]), _pump(onward[0], writer))

    return await asyncio.start_server(connected, listen, port, reuse_address=True)


async def run(target: tuple[str, int], listens: list[tuple[str, int]]) -> None:
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    servers = [await _serve(host, port, target) for host, port in listens]
    print(f"relaying to {target[0]}:{target[1]} from {listens}", flush=True)  # noqa: T201
    await end.wait()
    for server in servers:
        server.close()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    first, *others = sys.argv[1:]
    asyncio.run(run(_address(first), [_address(each) for each in others]))
