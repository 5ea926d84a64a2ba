"""The start of a program whose ranks need a byte of their neighbour in each step, as in a ring."""

from __future__ import annotations

JOIN_RING = """\
server = socket.create_server(("127.0.0.1", base + rank))
right = None
while right is None:
    try:
        right = socket.create_connection(("127.0.0.1", base + (rank + 1) % size))
    except OSError:
        time.sleep(0.1)
left, _ = server.accept()"""
"""Wants `rank`, `size`, `base` (the first of their ports), `socket` and `time`; gives the sockets
`left` and `right`."""
