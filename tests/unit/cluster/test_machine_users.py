"""Who counts as another user of the machine, and what follows for `cluster up`."""

from __future__ import annotations

import os
import pwd
from dataclasses import replace
from pathlib import Path

import pytest

from yarnam.cluster import ClusterShape, EmbeddedCluster, lifecycle, machine_users, prepare
from yarnam.cluster.machine_users import (
    OPEN_TO_ALL,
    Account,
    MachineFacts,
    open_to_all,
    other_people,
    read_machine,
    refuse_shared_machine,
)
from yarnam.errors import BadConfig

ACCOUNTS = {
    0: Account("root", "/bin/bash"),
    33: Account("www-data", "/usr/sbin/nologin"),
    1000: Account("ann", "/bin/bash"),
    1001: Account("bob", "/usr/bin/zsh"),
    1002: Account("backup", "/usr/sbin/nologin"),
    65534: Account("nobody", "/bin/sh"),
}
ANN, ROOT = frozenset({1000}), frozenset({0})


def facts(
    mine: frozenset[int], processes: set[int], sessions: set[int] | None = None
) -> MachineFacts:
    return MachineFacts(mine, frozenset(processes), frozenset(sessions or ()), ACCOUNTS)


@pytest.mark.parametrize(
    ("seen", "people"),
    [
        (facts(ANN, {0, 33, 1000}), ()),
        (facts(ROOT, {0}), ()),
        (facts(ROOT, {0, 1001}), ("bob",)),
        (facts(frozenset({0, 1000}), {0, 1000}), ()),  # ann by sudo
        (facts(ANN, {0, 1000, 1001}), ("bob",)),
        (facts(ANN, {0, 1000}, {1001}), ("bob",)),  # logged in, processes hidden
        (facts(ANN, {0, 1000, 1002, 1234, 65534}), ()),  # a service, a container's, nobody
        (MachineFacts(ANN, frozenset({1001}), accounts=ACCOUNTS, persons=range(2000, 3000)), ()),
    ],
)
def test_other_people_are_users_who_can_log_in_and_do_something_here(
    seen: MachineFacts, people: tuple[str, ...]
) -> None:
    assert other_people(seen) == people


def test_a_shared_machine_is_refused_with_what_the_others_could_do() -> None:
    accounts = {uid: Account(f"user{uid}", "/bin/sh") for uid in range(1001, 1009)}
    crowd = MachineFacts(ANN, frozenset(accounts), accounts=accounts)
    with pytest.raises(BadConfig) as caught:
        refuse_shared_machine(crowd)
    assert "user1001, user1002, user1003, user1004, user1005 and 3 more" in caught.value.message
    assert "every user of this machine can run programs as you" in caught.value.message
    assert caught.value.hint is not None
    assert "--shared-machine" in caught.value.hint
    refuse_shared_machine(facts(ANN, {0, 1000}))


def test_the_machine_is_read_as_it_is(tmp_path: Path) -> None:
    proc, sessions, defs = tmp_path / "proc", tmp_path / "user", tmp_path / "login.defs"
    for directory in (proc / "1", proc / "self", sessions / "1001", sessions / "not-a-number"):
        directory.mkdir(parents=True)
    (proc / "self" / "loginuid").write_text("1000")
    defs.write_text("# UID_MIN 1\nUID_MIN\t\t 500\nUID_MAX 70000\nSYS_UID_MIN 100\n")
    seen = read_machine(proc, sessions, defs)
    me = os.getuid()
    assert seen.mine == {me, 1000}
    assert seen.with_processes == {me}
    assert seen.with_sessions == {1001}
    assert seen.persons == range(500, 70001)
    assert seen.accounts[me].name == pwd.getpwuid(me).pw_name


def test_what_the_machine_does_not_say_is_nobody(tmp_path: Path) -> None:
    none = tmp_path / "none"
    seen = read_machine(none, none, none)
    assert (seen.mine, seen.with_processes, seen.with_sessions) == ({os.getuid()}, set(), set())
    assert seen.persons == range(1000, 60001)
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "loginuid").write_text("4294967295")  # not logged in: a container
    assert read_machine(tmp_path, none, none).mine == {os.getuid()}


class Messages:
    def __init__(self) -> None:
        self.said: list[str] = []

    def message(self, text: str) -> None:
        self.said.append(text)


class Fetched(Exception):
    """The start went on to what comes after the question."""


@pytest.mark.parametrize("asked_by", ["argument", "environment", "nobody"])
def test_a_start_beside_others_has_to_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_by: str
) -> None:
    def fetch(*_: object, **__: object) -> None:
        raise Fetched

    monkeypatch.setattr(prepare, "software", fetch)
    monkeypatch.setattr(machine_users, "read_machine", lambda: facts(ANN, {1001}))
    monkeypatch.delenv("YARNAM_SHARED_MACHINE", raising=False)
    if asked_by == "environment":
        monkeypatch.setenv("YARNAM_SHARED_MACHINE", "yes")
    messages = Messages()
    cluster = EmbeddedCluster(
        ClusterShape(),
        state_root=tmp_path,
        reporter=messages,  # type: ignore[arg-type]
        shared_machine=asked_by == "argument",
    )
    if asked_by == "nobody":
        with pytest.raises(BadConfig, match="bob"):
            cluster.up()
        assert not list(tmp_path.rglob("*")), "nothing was made"
    else:
        with pytest.raises(Fetched):
            cluster.up()
        (said,) = messages.said
        assert "every user of this machine can run programs as you" in said


@pytest.mark.parametrize("shared_machine", [False, True])
def test_a_cluster_that_is_up_is_used_and_says_who_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_machine: bool
) -> None:
    def fetch(*_: object, **__: object) -> None:
        raise Fetched

    monkeypatch.setattr(prepare, "software", fetch)
    monkeypatch.setattr(lifecycle, "living_processes", lambda paths: ["nn"])
    monkeypatch.setattr(machine_users, "read_machine", lambda: facts(ANN, {1001}))
    monkeypatch.delenv("YARNAM_SHARED_MACHINE", raising=False)
    messages = Messages()
    with pytest.raises(Fetched):
        EmbeddedCluster(
            ClusterShape(),
            state_root=tmp_path,
            reporter=messages,  # type: ignore[arg-type]
            shared_machine=shared_machine,
        ).up()
    assert [
        text.startswith("warning: other people use this machine (bob)") for text in messages.said
    ] == ([] if shared_machine else [True])


def test_what_is_open_to_them_depends_on_kerberos() -> None:
    assert open_to_all(secure=False, has_zookeeper=True) == OPEN_TO_ALL
    assert open_to_all(secure=False, has_zookeeper=False) == OPEN_TO_ALL
    secure = open_to_all(secure=True, has_zookeeper=True)
    assert "ZooKeeper" in secure
    assert "run programs" not in secure
    assert open_to_all(secure=True, has_zookeeper=False) == ""


def test_the_refusal_says_what_is_open() -> None:
    crowd = facts(ANN, {0, 1000})
    crowd = replace(crowd, mine=frozenset({0}))
    with pytest.raises(BadConfig, match="can write to its ZooKeeper"):
        refuse_shared_machine(crowd, open_to_all(secure=True, has_zookeeper=True))
    refuse_shared_machine(crowd, "")
