"""Whose keys a keytab has, as MIT's library writes it (format 0x0502): records behind their length,
each with the principal's parts first. Kerberos takes the first one where none is named."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from hdfs_utils.errors import BadConfig, MalformedData

CLIENT_KEYTAB_VARIABLE = "KRB5_CLIENT_KTNAME"
_MAGIC = b"\x05\x02"


def client_principals(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Whose keys are in the keytab by which programs get a ticket themselves; empty means the
    environment names none.

    Raises:
        BadConfig: it cannot be read, or is none.
    """
    name = environ.get(CLIENT_KEYTAB_VARIABLE, "")
    path = name.partition(":")[2] if name.startswith(("FILE:", "WRFILE:")) else name
    if not path:
        return ()
    named = f"the keytab that {CLIENT_KEYTAB_VARIABLE} names"
    try:
        return principals(Path(path).read_bytes())
    except OSError as error:
        raise BadConfig(f"{named} cannot be read: {error.strerror}", path=path) from error
    except MalformedData as error:
        raise BadConfig(f"{named}: {error.message}", path=path) from error


def principals(data: bytes) -> tuple[str, ...]:
    """As in ``ada@EXAMPLE.COM``, each once, in the order of the file.

    Raises:
        MalformedData: it is not a keytab, or of another format.
    """
    if data[:2] != _MAGIC:
        raise MalformedData("not a keytab of format 0x0502")
    try:
        return tuple(dict.fromkeys(_principals(data)))
    except (struct.error, ValueError) as error:
        raise MalformedData("the keytab is damaged") from error


def _principals(data: bytes) -> Iterator[str]:
    position = 2
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if size > 0:  # a hole, where a key was removed, has a negative size
            if position + size > len(data):
                raise struct.error("truncated")
            yield _principal(data[position : position + size])
        elif size == 0:
            return
        position += abs(size)


def _principal(record: bytes) -> str:
    (count,) = struct.unpack_from(">H", record, 0)
    position, texts = 2, []
    for _ in range(count + 1):  # the realm first
        (size,) = struct.unpack_from(">H", record, position)
        if position + 2 + size > len(record):
            raise struct.error("truncated")
        texts.append(record[position + 2 : position + 2 + size].decode())
        position += 2 + size
    realm, *parts = texts
    return f"{'/'.join(parts)}@{realm}"
