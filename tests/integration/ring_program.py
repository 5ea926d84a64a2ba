"""Programs whose ranks need a byte of their neighbour in each step, as in a ring."""

from __future__ import annotations

from pathlib import Path

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

SAVING_RING = (
    """
import os, pathlib, socket, sys, time
from yarnam import train
rank, size = train.rank(), train.world_size()
folder, base = pathlib.Path(sys.argv[1]), int(sys.argv[2])
"""
    + JOIN_RING
    + """
before = folder / f"saved-{train.attempt() - 1}-{rank}"
step = int(before.read_text()) if before.exists() else 0
(folder / f"from-{train.attempt()}-{rank}").write_text(str(step))
while not (folder / "finish").exists():
    time.sleep(0.03 + 0.01 * rank)
    try:
        right.sendall(b"x")
        got = left.recv(1)
    except OSError:
        got = b""
    if not got:  # the neighbour may have seen the file first
        sys.exit(0 if (folder / "finish").exists() else 1)
    step += 1
    (folder / f"done-{train.attempt()}-{rank}").write_text(str(step))
    train.report(step=step)
    if train.should_stop(step):
        (folder / f"saved-{train.attempt()}-{rank}").write_text(str(step))
        sys.exit(3)
"""
)
"""All have to stop after the same step: who did one more would wait for ever, and be killed without
having saved. Its arguments: a folder, which has what each rank of each attempt has done and saved,
and ends it by a file ``finish``; and the first of the ports."""


def steps(folder: Path, what: str, attempt: int) -> list[int]:
    found = sorted(folder.glob(f"{what}-{attempt}-*"))
    return [int(text) for path in found if (text := path.read_text())]
