"""Trying again, and what it leaves alone."""

from __future__ import annotations

import random
import time

import pytest

from hdfs_utils.deadline import DeadlineExceeded
from hdfs_utils.errors import AlreadyExists, HdfsError, NotFound, SafeMode, Starting, Unavailable
from hdfs_utils.failover import until_one_is_active
from hdfs_utils.insist import FIRST_PAUSE_S, MAX_PAUSE_S, insist, pause_s
from hdfs_utils.nameservices import Nameservices
from hdfs_utils.transfer.staged import renamed
from hdfs_utils.uri import Uri
from tests.fakes.files import MemoryFiles


class Troubled:
    """Raises these errors in turn, and then answers."""

    def __init__(self, *errors: HdfsError) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def test_waits_grow_up_to_a_cap() -> None:
    assert all(0.0 <= pause_s(1) <= FIRST_PAUSE_S for _ in range(50))
    assert all(0.0 <= pause_s(100) <= MAX_PAUSE_S for _ in range(50))
    assert max(pause_s(100) for _ in range(200)) > FIRST_PAUSE_S


def test_the_training_programs_own_dice_are_left_alone() -> None:
    random.seed(7)
    before = random.getstate()
    pause_s(3)
    assert random.getstate() == before


def test_as_often_as_asked_however_long_it_takes() -> None:
    with pytest.raises(Unavailable):
        insist(call := Troubled(*(Unavailable("down") for _ in range(9))), 0.0, at_least=3)
    assert call.calls == 3


def test_a_failover_is_waited_for() -> None:
    call = Troubled(Unavailable("standby"), Unavailable("refused"), Starting("blocks missing"))
    assert until_one_is_active(call, 10.0) == "answer"
    assert call.calls == 4


@pytest.mark.parametrize("error", [SafeMode("on"), NotFound("gone")])
def test_what_is_no_failover_is_told_at_once(error: HdfsError) -> None:
    call = Troubled(error)
    with pytest.raises(type(error)):
        until_one_is_active(call, 10.0)
    assert call.calls == 1


def test_a_call_that_took_its_whole_limit_is_not_repeated() -> None:
    silent = Unavailable("no answer")
    silent.__cause__ = DeadlineExceeded("no answer within 8 s")
    call = Troubled(silent)
    with pytest.raises(Unavailable):
        until_one_is_active(call, 10.0)
    assert call.calls == 1


def test_a_failover_that_does_not_end() -> None:
    began = time.monotonic()
    with pytest.raises(Unavailable):
        until_one_is_active(Troubled(*(Unavailable("standby") for _ in range(99))), 0.5)
    assert time.monotonic() - began < 5.0


@pytest.mark.parametrize("is_lost", ["question", "answer"])
def test_a_rename_whose_answer_was_lost(is_lost: str) -> None:
    fs = MemoryFiles()
    fs.write_bytes("/a", b"new")
    told = [Unavailable("down")]
    rename = fs.rename

    def lossy(src: str, dst: str, overwrite: bool = False) -> None:
        if not told or is_lost == "answer":
            rename(src, dst, overwrite)
        if told:
            raise told.pop()

    fs.rename = lossy  # type: ignore[method-assign]
    renamed(fs, "/a", "/b", overwrite=False)
    assert fs.read_bytes("/b") == b"new"
    fs.write_bytes("/c", b"another's")
    with pytest.raises(AlreadyExists):
        renamed(fs, "/c", "/b", overwrite=False)
    with pytest.raises(NotFound):
        renamed(fs, "/nothing", "/d", overwrite=False)


def test_who_has_a_standby() -> None:
    pair = {
        "dfs.ha.namenodes.ns": "a,b",
        "dfs.namenode.rpc-address.ns.a": "h1:8020",
        "dfs.namenode.rpc-address.ns.b": "h2:8020",
        "fs.viewfs.mounttable.m.link./x": "hdfs://ns/x",
    }
    assert Nameservices(Uri("hdfs", "ns", "/"), pair).is_paired
    assert not Nameservices(Uri("hdfs", "h1:8020", "/"), pair).is_paired
    assert Nameservices(Uri("viewfs", "m", "/"), pair).is_paired
