"""Kerberos without a realm: what is said then."""

from __future__ import annotations

from pathlib import Path

import pytest

from hdfs_utils import errors
from hdfs_utils.protocols import gssapi, kerberos_errors
from hdfs_utils.protocols.java_errors import from_java, translate
from tests.unit.hdfs_utils.protocols.ticket_files import write_ticket


@pytest.mark.parametrize(
    ("text", "says"),
    [
        # As MIT 1.20, Java 17 and Hadoop 3.4.1 write them.
        ("No Kerberos credentials available (default cache: FILE:/tmp/krb5cc_0)", "run kinit"),
        ("Client cannot authenticate via:[TOKEN, KERBEROS]", "run kinit"),
        ("Unspecified GSS failure.  Minor code …; Ticket expired", "has expired: run kinit"),
        ("Clock skew too great", "set it by NTP"),
        ("Keytab contains no suitable keys for ada@SITE", "another principal"),
        ("Cannot contact any KDC for realm 'SITE'", "does not answer"),
        ("Cannot find KDC for realm \"OTHER\"", "check its [realms] section"),
        ("Server HTTP/h@SITE not found in Kerberos database", "knows no such service"),
        ("KDC has no support for encryption type", "no encryption type"),
        ("token (HDFS_DELEGATION_TOKEN …) can't be found in cache", "needs a new one"),
    ],
)  # fmt: skip
def test_each_known_error_says_what_to_do(text: str, says: str) -> None:
    assert says in kerberos_errors.explained(text)
    assert kerberos_errors.explained(text).startswith(text)


def test_other_errors_are_left_as_they_are() -> None:
    assert kerberos_errors.explained("disk full") == "disk full"


def test_the_native_clients_errors_are_explained() -> None:
    said = 'GSSAPIError("GSS_S_NO_CRED", "No Kerberos credentials available")'
    found = translate(RuntimeError(said), "stat", "/a", "hdfs://nn")
    assert isinstance(found, errors.NotAuthenticated)
    assert "run kinit" in found.message
    java = "org.apache.hadoop.security.token.SecretManager$InvalidToken"
    expired = from_java(java, "Token has expired, current time: 1", "stat", "/a")
    assert isinstance(expired, errors.NotAuthenticated)
    assert "needs a new one" in expired.message


def test_without_a_ticket_or_a_realm_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    realm = tmp_path / "krb5.conf"
    realm.write_text("[libdefaults]\n default_realm = SITE.TEST\n dns_lookup_kdc = false\n")
    monkeypatch.setenv("KRB5_CONFIG", str(realm))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'none'}")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{tmp_path / 'none.keytab'}")
    with pytest.raises(errors.NotAuthenticated, match="run kinit"):
        gssapi.negotiate_header("127.0.0.1")
    with pytest.raises(errors.NotAuthenticated, match="run kinit"):
        gssapi.identity()


def test_an_expired_ticket_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    realm = tmp_path / "krb5.conf"
    realm.write_text("[libdefaults]\n default_realm = SITE.TEST\n dns_lookup_kdc = false\n")
    monkeypatch.setenv("KRB5_CONFIG", str(realm))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'tickets'}")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{tmp_path / 'none.keytab'}")
    write_ticket(tmp_path / "tickets", "alice", "SITE.TEST", left_s=7200)
    assert gssapi.identity().principal == "alice@SITE.TEST"
    assert 7000 < gssapi.identity().left_s <= 7200
    write_ticket(tmp_path / "tickets", "alice", "SITE.TEST", left_s=-10)
    for ask in (gssapi.identity, lambda: gssapi.negotiate_header("127.0.0.1")):
        with pytest.raises(errors.NotAuthenticated, match="has expired: run kinit"):
            ask()


def test_a_machine_without_the_library_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gssapi, "_LIBRARY", "libgssapi-not-there.so")
    gssapi._library.cache_clear()
    with pytest.raises(errors.NotSupported, match="libgssapi-krb5-2"):
        gssapi.negotiate_header("127.0.0.1")
    gssapi._library.cache_clear()
