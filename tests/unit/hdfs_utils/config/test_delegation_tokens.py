"""Files of delegation tokens, written here as Hadoop's Credentials does."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from hdfs_utils.config import delegation_tokens
from hdfs_utils.config.delegation_tokens import DelegationToken
from hdfs_utils.errors import BadConfig, MalformedData


def vint(value: int) -> bytes:
    """WritableUtils.writeVLong, for the lengths of these tests."""
    if value <= 127:
        return bytes([value])
    return bytes([0x8F, value]) if value < 256 else bytes([0x8E]) + value.to_bytes(2, "big")


def credentials(*found: tuple[bytes, bytes, bytes, bytes]) -> bytes:
    body = b"HDTS\0" + vint(len(found))
    for parts in found:
        body += vint(5) + b"alias" + b"".join(vint(len(part)) + part for part in parts)
    return body + vint(0)


LONG = bytes(300)


def test_tokens_are_read_and_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokens"
    hdfs = (LONG, b"s" * 200, b"HDFS_DELEGATION_TOKEN", b"10.0.0.1:8020")
    path.write_bytes(credentials(hdfs, (b"i", b"p", b"YARN_AM_RM_TOKEN", b"rm:8030")))
    monkeypatch.setenv(delegation_tokens.TOKEN_FILE_VARIABLE, str(path))
    found = delegation_tokens.load()
    assert [(t.kind, t.service) for t in found] == [
        ("HDFS_DELEGATION_TOKEN", "10.0.0.1:8020"),
        ("YARN_AM_RM_TOKEN", "rm:8030"),
    ]
    token = delegation_tokens.find(found, ("nn", "10.0.0.1:8020"))
    assert token is not None
    assert delegation_tokens.find(found, ("rm:8030",)) is None
    text = token.for_url()
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert raw == b"".join(vint(len(part)) + part for part in hdfs)
    assert "s" * 20 not in repr(token)


def test_none_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(delegation_tokens.TOKEN_FILE_VARIABLE, raising=False)
    assert delegation_tokens.load() == ()


@pytest.mark.parametrize(
    "data", [b"", b"what?\0", b"HDTS\1\0", credentials((LONG, b"", b"", b""))[:50]]
)
def test_damage_is_told(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(data)
    with pytest.raises(BadConfig):
        delegation_tokens.load(str(path))
    with pytest.raises(BadConfig):
        delegation_tokens.load(str(tmp_path / "missing"))


def test_a_token_of_webhdfs_serves_rpc_under_another_name() -> None:
    given = delegation_tokens.DelegationToken("SWEBHDFS delegation", "10.0.0.1:8020", LONG, b"s")
    again = delegation_tokens.from_url(given.for_url())
    assert again == given
    assert again.for_rpc("ha-hdfs:site").service == "ha-hdfs:site"
    rpc = again.for_rpc("")
    assert (rpc.kind, rpc.service) == ("HDFS_DELEGATION_TOKEN", "10.0.0.1:8020")
    assert (rpc.identifier, rpc.password) == (given.identifier, given.password)


@pytest.mark.parametrize("text", ["", "AA", "%%%", "BQAA"])
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(MalformedData):
        delegation_tokens.from_url(text)


HDFS = DelegationToken("HDFS_DELEGATION_TOKEN", "10.0.0.1:8020", b"new", b"password")


def test_a_token_replaces_the_one_of_its_kind_and_service(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    secret = b"\x01\x03key\x05value"
    old = credentials(
        (b"am", b"p", b"YARN_AM_RM_TOKEN", b"rm:8030"),
        (LONG, b"s" * 200, b"HDFS_DELEGATION_TOKEN", b"10.0.0.1:8020"),
        (b"other", b"p", b"HDFS_DELEGATION_TOKEN", b"10.0.0.2:8020"),
    )
    path.write_bytes(old[:-1] + secret)
    path.chmod(0o644)
    added = DelegationToken("RM_DELEGATION_TOKEN", "rm:8032", LONG, b"p")
    delegation_tokens.replace_in_file(str(path), [HDFS, added])
    am, hdfs, other, rm = delegation_tokens.load(str(path))
    assert (am.kind, other.identifier) == ("YARN_AM_RM_TOKEN", b"other")
    assert (hdfs, rm) == (HDFS, added)
    data = path.read_bytes()
    assert data.endswith(secret)
    assert data.count(b"\x05alias") == 3
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["tokens"]


def test_a_damaged_file_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(b"HDTS\0\x02\x05alias")
    with pytest.raises(BadConfig, match="damaged"):
        delegation_tokens.replace_in_file(str(path), [HDFS])
    assert path.read_bytes() == b"HDTS\0\x02\x05alias"


def test_a_file_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="cannot be written"):
        delegation_tokens.write_file(str(tmp_path / "missing" / "tokens"), [HDFS])


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    delegation_tokens.write_file(str(path), [HDFS])
    assert delegation_tokens.load(str(path)) == (HDFS,)
    assert path.read_bytes() == credentials(
        (b"new", b"password", b"HDFS_DELEGATION_TOKEN", b"10.0.0.1:8020")
    ).replace(b"\x05alias", b"\x23HDFS_DELEGATION_TOKEN 10.0.0.1:8020")
    assert path.stat().st_mode & 0o777 == 0o600
