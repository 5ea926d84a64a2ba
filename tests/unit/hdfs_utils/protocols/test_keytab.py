"""Whose keys a keytab has."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from hdfs_utils.errors import BadConfig, MalformedData
from hdfs_utils.protocols.keytab import client_principals, principals


def record(*parts: str, realm: str = "SITE.TEST") -> bytes:
    """A key of a principal, as MIT's kt_file.c writes it."""
    texts = b"".join(struct.pack(">H", len(one)) + one.encode() for one in (realm, *parts))
    key = struct.pack(">IIBHH", 1, 1_700_000_000, 2, 18, 32) + bytes(32)
    body = struct.pack(">h", len(parts)) + texts + key
    return struct.pack(">i", len(body)) + body


def keytab(*records: bytes) -> bytes:
    return b"\x05\x02" + b"".join(records)


def test_in_the_order_of_the_file() -> None:
    hole = struct.pack(">i", -7) + bytes(7)
    data = keytab(record("alice"), record("alice"), hole, record("HTTP", "127.0.0.1"))
    assert principals(data) == ("alice@SITE.TEST", "HTTP/127.0.0.1@SITE.TEST")


def test_none() -> None:
    assert principals(keytab()) == ()
    assert principals(keytab(struct.pack(">i", 0), record("alice"))) == ()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x05\x01" + record("alice"),
        b"-----BEGIN CERTIFICATE-----",
        keytab(record("alice"))[:-40],
        keytab(b"\0\0"),
        keytab(struct.pack(">i", 4) + struct.pack(">hH", 1, 900)),
        keytab(struct.pack(">i", 6) + struct.pack(">hH", 0, 2) + b"\xff\xff"),
    ],
)
def test_what_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedData):
        principals(data)


def test_the_one_that_programs_get_a_ticket_by(tmp_path: Path) -> None:
    path = tmp_path / "alice.keytab"
    path.write_bytes(keytab(record("alice")))
    for name in (f"FILE:{path}", str(path)):
        assert client_principals({"KRB5_CLIENT_KTNAME": name}) == ("alice@SITE.TEST",)
    assert client_principals({}) == ()
    with pytest.raises(BadConfig, match="KRB5_CLIENT_KTNAME names cannot be read: No such file"):
        client_principals({"KRB5_CLIENT_KTNAME": f"FILE:{tmp_path}/none"})
    path.write_bytes(b"password")
    with pytest.raises(BadConfig, match="not a keytab"):
        client_principals({"KRB5_CLIENT_KTNAME": str(path)})
