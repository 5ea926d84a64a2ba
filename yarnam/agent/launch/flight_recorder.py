"""torch's flight recorder: which collectives a process has begun, by its own record.

``ProcessGroupNCCL`` keeps the last ones in memory and writes them to a file (``<stem><rank>``) when
somebody writes to its pipe (``<stem><rank>.pipe``), which it reads every second
(torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, ``DumpPipe``). Other backends have no pipe. The
file is a pickle of lists, dictionaries, texts and numbers; it is read without the pickle module,
which would run what it says.
"""

from __future__ import annotations

import asyncio
import io
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from pickletools import opcodes
from typing import Any

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import read_at_most
from yarnam.core.failures.rank_activity import Collective
from yarnam.core.model.printable import printable
from yarnam.wire.protocol import ENV_RECORDER_FILE, ENV_RECORDER_PIPE

ENV_FILES = ("TORCH_FR_DUMP_TEMP_FILE", ENV_RECORDER_FILE)
"""Newer versions have both; the first one counts."""

LIMIT_S = 3.0
"""For torch to see the pipe and to write: each takes up to a second."""
POLL_S = 0.1
MAX_BYTES = 16 << 20
"""The limit of a dump: 512 entries with the stacks of all have some 2 MB."""
MAX_TEXT = 100
SHOWN = 5
"""Collectives that go into the log."""

_ENDS_WITH = b"."
"""The last byte of a pickle."""


async def last_collective(env: Mapping[str, str], log: Path) -> Collective | None:
    """The last collective that a process with this environment has begun; its last ones go into
    the log. ``None`` if it has no recorder, or did not answer. Takes ``LIMIT_S`` at most."""
    stem = env.get(ENV_RECORDER_PIPE, "")
    target = next((env[name] for name in ENV_FILES if env.get(name)), "")
    if not stem or not target:
        return None
    # torchrun starts several, of ranks that it gives itself: the first that answers tells.
    for pipe in sorted(Path(stem).parent.glob(f"{Path(stem).name}*.pipe")):
        dump = Path(target + pipe.name[len(Path(stem).name) : -len(".pipe")])
        if _ask(pipe, dump) and (data := await _read_dump(dump)):
            with suppress(MalformedData):
                return _take_note(await asyncio.to_thread(parse_dump, data), dump, log)
    return None


def _ask(pipe: Path, dump: Path) -> bool:
    """Whether somebody listens at the pipe."""
    try:
        with suppress(FileNotFoundError):
            dump.unlink()
        fd = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False  # ENXIO: left by a process that has ended
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode) and os.write(fd, b"1") == 1
    except OSError:
        return False
    finally:
        os.close(fd)


async def _read_dump(dump: Path) -> bytes:
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        await asyncio.sleep(POLL_S)
        with suppress(OSError, MalformedData), dump.open("rb") as file:
            if (data := read_at_most(file, MAX_BYTES)).endswith(_ENDS_WITH):
                return data
    return b""


def _take_note(collectives: list[Collective], dump: Path, log: Path) -> Collective | None:
    lines = [f"yarnam: last collectives by torch's flight recorder ({dump}):"]
    lines += [f"yarnam:   {one.words}" for one in collectives[-SHOWN:]]
    with suppress(OSError), log.open("ab") as file:
        file.write("\n".join([*lines, ""]).encode("utf-8", "replace"))
    return collectives[-1] if collectives else None


def parse_dump(data: bytes) -> list[Collective]:
    """The collectives of a dump, oldest first; point-to-point operations are left out, as their
    numbers differ between ranks that are well. Raises MalformedData."""
    dump = _plain(data)
    entries = dump.get("entries") if isinstance(dump, dict) else None
    if not isinstance(entries, list):
        raise MalformedData("a dump of the flight recorder without entries")
    found = [_collective(entry) for entry in entries if isinstance(entry, dict)]
    return [one for one in found if one is not None]


def _collective(entry: dict[object, object]) -> Collective | None:
    number, name, state = (entry.get(k) for k in ("collective_seq_id", "profiling_name", "state"))
    group = entry.get("process_group")
    # (name, description); before torch 2.4 the name alone.
    first = group[0] if isinstance(group, (list, tuple)) and group else group
    if entry.get("is_p2p") or type(number) is not int or not 0 <= number < 1 << 63:
        return None
    of, operation, shown_state = (
        printable(one, max_length=MAX_TEXT) if isinstance(one, str) else ""
        for one in (first, name, state)
    )
    return Collective(of, operation, shown_state, number)


_OPERATIONS = {operation.code: operation for operation in opcodes}
_NUMBERS_AND_TEXTS = frozenset({
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE",
})  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PLAIN = frozenset({
    *_NUMBERS_AND_TEXTS, *_CONSTANTS, *_TUPLES, "EMPTY_LIST", "EMPTY_DICT", "MARK", "BINPUT",
    "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET", "APPEND", "SETITEM", "APPENDS", "SETITEMS",
    "TUPLE", "PROTO", "FRAME", "STOP",
})  # fmt: skip


def _plain(data: bytes) -> object:
    """The value of a pickle that holds nothing but plain values. Raises MalformedData."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, object] = {}
    try:
        for name, argument in _operations(data):
            if name in _NUMBERS_AND_TEXTS:
                stack.append(argument)
            elif name in _CONSTANTS:
                stack.append(_CONSTANTS[name])
            elif name in ("EMPTY_LIST", "EMPTY_DICT"):
                stack.append([] if name == "EMPTY_LIST" else {})
            elif name == "MARK":
                marks.append(len(stack))
            elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
                memo[len(memo) if argument is None else int(argument)] = stack[-1]
            elif name in ("BINGET", "LONG_BINGET"):
                stack.append(memo[int(argument or 0)])
            elif name == "STOP":
                return stack.pop()
            elif name not in ("PROTO", "FRAME"):
                _build(name, stack, marks)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise MalformedData(f"no dump of the flight recorder: {error!r:.200}") from error
    raise MalformedData("a dump of the flight recorder without an end")


def _operations(data: bytes) -> Iterator[tuple[str, Any]]:
    """As ``pickletools.genops``, but an operation that is not plain is refused before its argument
    is read."""
    stream = io.BytesIO(data)
    while code := stream.read(1):
        operation = _OPERATIONS[code.decode("latin-1")]
        if operation.name not in _PLAIN:
            raise ValueError(f"{operation.name} is not plain")
        yield operation.name, operation.arg.reader(stream) if operation.arg is not None else None


def _build(name: str, stack: list[Any], marks: list[int]) -> None:
    """Raises LookupError, TypeError, ValueError, AttributeError."""
    if name in ("APPEND", "SETITEM", *_TUPLES):
        begin = len(stack) - _TUPLES.get(name, 1 if name == "APPEND" else 2)
    else:
        begin = marks.pop()
    if begin < 0:
        raise IndexError("nothing left")
    items = stack[begin:]
    del stack[begin:]
    if name.startswith("APPEND"):
        stack[-1].extend(items)
    elif name.startswith("SETITEM"):
        stack[-1].update(zip(items[::2], items[1::2], strict=True))
    else:
        stack.append(tuple(items))
