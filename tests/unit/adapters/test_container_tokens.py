"""The AM's delegation tokens: what replaced them outlives an attempt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from hdfs_utils.config.delegation_tokens import DelegationToken, load
from tests.unit.hdfs_utils.config.test_delegation_tokens import credentials
from tests.unit.hdfs_utils.protocols.test_token_lifetime import hdfs_identifier
from yarnam.adapters.container_tokens import (
    COPY_FILE,
    ContainerTokens,
    NewTokens,
    keep_replacing,
    obtain_by_keytab,
)
from yarnam.core.failures.token_renewal import TokenLife
from yarnam.errors import BadConfig, Unavailable, WireMismatch

OLD = (b"old", b"p", b"HDFS_DELEGATION_TOKEN", b"nn:8020")
AM = (b"am", b"p", b"YARN_AM_RM_TOKEN", b"rm:8030")
NEW = DelegationToken("HDFS_DELEGATION_TOKEN", "nn:8020", b"new", b"password")


def container(folder: Path, name: str, *directories: Path) -> ContainerTokens:
    """One attempt, as YARN starts it: with the tokens of the submission."""
    path = folder / name
    path.write_bytes(credentials(OLD, AM))
    environ = {
        "HADOOP_TOKEN_FILE_LOCATION": str(path),
        "LOCAL_DIRS": ",".join(map(str, directories)),
    }
    found = ContainerTokens.of_this_container(environ)
    assert found is not None
    return found


def identifiers(folder: Path, name: str) -> dict[str, bytes]:
    return {token.kind: token.identifier for token in load(str(folder / name))}


def test_without_tokens_of_yarns_there_is_nothing_to_replace() -> None:
    assert ContainerTokens.of_this_container({"LOCAL_DIRS": "/x"}) is None


def test_a_later_attempt_goes_on_with_them(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    first = container(tmp_path, "first", tmp_path / "broken", disk)
    assert first.restore() == ()
    first.replace([NEW.for_url()])
    assert identifiers(tmp_path, "first") == {
        "HDFS_DELEGATION_TOKEN": b"new",
        "YARN_AM_RM_TOKEN": b"am",
    }
    second = container(tmp_path, "second", disk, tmp_path / "broken")
    assert second.restore() == (NEW.for_url(),)
    assert identifiers(tmp_path, "second")["HDFS_DELEGATION_TOKEN"] == b"new"
    copy = disk / COPY_FILE
    assert copy.stat().st_mode & 0o777 == 0o600
    # The attempt's own stays with the attempt.
    assert [token.kind for token in load(str(copy))] == ["HDFS_DELEGATION_TOKEN"]


def test_the_newest_copy_counts(tmp_path: Path) -> None:
    disks = tmp_path / "one", tmp_path / "two"
    for disk in disks:
        disk.mkdir()
    container(tmp_path, "first", disks[0]).replace([NEW.for_url()])
    newer = DelegationToken(NEW.kind, NEW.service, b"newer", b"password")
    container(tmp_path, "second", disks[1]).replace([newer.for_url()])
    os.utime(disks[0] / COPY_FILE, (1e9, 1e9))
    assert container(tmp_path, "third", *disks).restore() == (newer.for_url(),)


def test_a_damaged_copy_is_left_aside(tmp_path: Path) -> None:
    (tmp_path / COPY_FILE).write_bytes(b"HDTS\0\x01\x05alias")
    assert container(tmp_path, "second", tmp_path).restore() == ()
    assert identifiers(tmp_path, "second")["HDFS_DELEGATION_TOKEN"] == b"old"


def test_what_is_no_token_changes_nothing(tmp_path: Path) -> None:
    tokens = container(tmp_path, "first", tmp_path)
    with pytest.raises(WireMismatch):
        tokens.replace([NEW.for_url(), "AA"])
    assert identifiers(tmp_path, "first")["HDFS_DELEGATION_TOKEN"] == b"old"
    assert not (tmp_path / COPY_FILE).exists()


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    tokens = container(tmp_path, "first", tmp_path)
    (tmp_path / "first").unlink()
    with pytest.raises(BadConfig, match="cannot be read"):
        tokens.replace([NEW.for_url()])


# ---- by keytab ---------------------------------------------------------------------------------


class Clock:
    """Time passes only in waits."""

    def __init__(self, ends_s: float) -> None:
        self.now_s, self._ends_s = 1000.0, ends_s

    def wait(self, left_s: float) -> bool:
        self.now_s += left_s
        return self.now_s >= self._ends_s


def test_tokens_are_replaced_before_they_end_again_and_again() -> None:
    clock, got, taken = Clock(1500.0), list[float](), list[Sequence[str]]()

    def obtain() -> NewTokens:
        got.append(clock.now_s)
        return NewTokens((f"token {len(got)}",), clock.now_s + 100)

    keep_replacing(TokenLife(1000.0, 1200.0), obtain, taken.append, clock.wait, lambda: clock.now_s)
    assert got == [1150.0, 1225.0, 1300.0, 1375.0, 1450.0]
    assert taken == [(f"token {number}",) for number in range(1, 6)]


def test_what_fails_is_tried_again_and_nothing_secret_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, taken = Clock(1400.0), list[Sequence[str]]()
    failures = [Unavailable("the KDC does not answer"), Unavailable("nor now")]

    def obtain() -> NewTokens:
        if failures:
            raise failures.pop(0)
        return NewTokens(("c2VjcmV0",), clock.now_s + 10_000)

    keep_replacing(TokenLife(1000.0, 1200.0), obtain, taken.append, clock.wait, lambda: clock.now_s)
    assert taken == [("c2VjcmV0",)]
    said = "the KDC does not answer; those in use end in 50 s, the next try is in 10 s"
    assert said in caplog.text
    assert "c2VjcmV0" not in caplog.text


def test_the_life_of_yarns_own_is_what_the_first_to_end_says(tmp_path: Path) -> None:
    def row(end_s: float) -> tuple[bytes, bytes, bytes, bytes]:
        return (hdfs_identifier("a", "yarn", end_s), b"p", b"HDFS_DELEGATION_TOKEN", b"%d" % end_s)

    tokens = container(tmp_path, "first", tmp_path)
    (tmp_path / "first").write_bytes(credentials(row(1.8e9), row(1.7e9), AM))
    assert tokens.life_from(1.6e9) == TokenLife(1.6e9, 1.7e9 - 60)
    assert not tokens.have_ended(1.7e9 - 61)
    assert tokens.have_ended(1.7e9 - 60)
    (tmp_path / "first").write_bytes(credentials(OLD, AM))
    assert tokens.life_from(1.6e9) == TokenLife(1.6e9, 1.6e9)


def test_without_a_ticket_by_the_keytab_it_says_why(tmp_path: Path) -> None:
    """A process of its own, with Kerberos's own library and no KDC."""
    (tmp_path / "krb5.conf").write_text("[libdefaults]\n default_realm = SITE.TEST\n")
    settings = {
        "hadoop.security.authentication": "kerberos",
        "yarn.resourcemanager.hostname": "127.0.0.1",
    }
    rows = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>"
        for key, value in settings.items()
    )
    for name in ("core-site.xml", "yarn-site.xml"):
        (tmp_path / name).write_text(f"<configuration>{rows}</configuration>")
    keytab = tmp_path / "user.keytab"
    keytab.write_bytes(b"no keytab")
    environ = {
        **os.environ,
        "HADOOP_CONF_DIR": str(tmp_path),
        "KRB5_CONFIG": str(tmp_path / "krb5.conf"),
        "HADOOP_TOKEN_FILE_LOCATION": str(tmp_path / "tokens"),
    }
    with pytest.raises(Unavailable, match=r"by the keytab: .*(keytab|credentials)"):
        obtain_by_keytab(str(keytab), ["hdfs://127.0.0.1:1"], environ)
