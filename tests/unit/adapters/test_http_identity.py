"""Who asks the web servers of Hadoop's daemons."""

from __future__ import annotations

import grp
import os
import pwd
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from hdfs_utils.protocols import gssapi
from tests.unit.hdfs_utils.config.test_delegation_tokens import credentials
from yarnam.adapters import http_identity
from yarnam.adapters.http_identity import HttpIdentity, groups_of
from yarnam.wire.http_request import HttpError, HttpReply

URL = "http://nm1.example:8042/conf"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """URL and headers of each request; tickets come without a KDC."""
    found: list[tuple[str, dict[str, str]]] = []

    def request(url: str, *, who: dict[str, str], **_: Any) -> HttpReply:
        found.append((url, who))
        return HttpReply(b"{}", Message())

    monkeypatch.setattr(http_identity, "request", request)
    monkeypatch.setattr(gssapi, "negotiate_header", lambda host: f"Negotiate for {host}")
    return found


def test_simple_authentication_believes_a_name(asked: list[tuple[str, dict[str, str]]]) -> None:
    HttpIdentity("alice").get(URL, timeout_s=1.0)
    HttpIdentity().get(URL, timeout_s=1.0)
    assert asked == [(f"{URL}?user.name=alice", {}), (URL, {})]


def test_kerberos_wants_a_ticket(asked: list[tuple[str, dict[str, str]]]) -> None:
    HttpIdentity("alice", is_kerberos=True).get(URL, timeout_s=1.0)
    assert asked == [(URL, {"Authorization": "Negotiate for nm1.example"})]


def test_each_server_has_a_ticket_of_its_own(
    asked: list[tuple[str, dict[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def sent_on(url: str, *, who: dict[str, str], **_: Any) -> HttpReply:
        asked.append((url, who))
        number = len(asked)
        raise HttpError("HTTP 307", 307, location=f"https://nm{number + 1}.example:8044/conf?of=it")

    answer = http_identity.request
    monkeypatch.setattr(http_identity, "request", sent_on)
    who = HttpIdentity("alice", is_kerberos=True)
    with pytest.raises(HttpError, match="307"):
        who.get(URL, timeout_s=1.0)
    assert len(asked) == 4, "not for ever"
    asked.clear()

    def once(url: str, **given: Any) -> HttpReply:
        return sent_on(url, **given) if not asked else answer(url, **given)

    monkeypatch.setattr(http_identity, "request", once)
    who.get(URL, timeout_s=1.0)
    assert asked == [
        (URL, {"Authorization": "Negotiate for nm1.example"}),
        ("https://nm2.example:8044/conf?of=it", {"Authorization": "Negotiate for nm2.example"}),
    ]


@pytest.mark.usefixtures("asked")
def test_the_resource_manager_takes_its_token_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = HttpIdentity("alice", is_kerberos=True)
    assert "Authorization" in who.rm_headers("http://rm.example:8088")
    (tmp_path / "tokens").write_bytes(credentials((b"i", b"p", b"RM_DELEGATION_TOKEN", b"rm:8032")))
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tmp_path / "tokens"))
    assert list(who.rm_headers("http://rm.example:8088")) == ["X-Hadoop-Delegation-Token"]
    # No other daemon takes it.
    assert list(who.headers(URL)) == ["Authorization"]


def test_the_groups_of_a_user_of_this_machine() -> None:
    me = pwd.getpwuid(os.getuid())
    assert grp.getgrgid(me.pw_gid).gr_name in groups_of(me.pw_name)
    assert groups_of("no such user") == frozenset()
