"""Trying again, and what it leaves alone."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from hdfs_utils.concurrency.deadline import DeadlineExceeded
from hdfs_utils.concurrency.retry import (
    BACKOFF,
    Backoff,
    retry,
    retry_async,
    retry_over_failover,
)
from hdfs_utils.config.nameservices import Nameservices
from hdfs_utils.errors import AlreadyExists, HdfsError, NotFound, SafeMode, Starting, Unavailable
from hdfs_utils.transfer.staging_dir import rename_once
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
    assert all(0.0 <= BACKOFF.pause_s(1) <= BACKOFF.first_s for _ in range(50))
    assert all(0.0 <= BACKOFF.pause_s(100) <= BACKOFF.cap_s for _ in range(50))
    assert max(BACKOFF.pause_s(100) for _ in range(200)) > BACKOFF.first_s
    steady = Backoff(1.0, 5.0, is_jittered=False)
    assert [steady.pause_s(n) for n in (1, 2, 3, 4, 2000)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_the_training_programs_own_dice_are_left_alone() -> None:
    random.seed(7)
    before = random.getstate()
    BACKOFF.pause_s(3)
    assert random.getstate() == before


def test_as_often_as_asked_however_long_it_takes() -> None:
    with pytest.raises(Unavailable):
        retry(call := Troubled(*(Unavailable("down") for _ in range(9))), 0.0, at_least=3)
    assert call.calls == 3


def test_what_the_sleep_raises_ends_it() -> None:
    class Stopped(Exception):
        pass

    def sleep(seconds: float) -> None:
        raise Stopped

    call = Troubled(*(Unavailable("down") for _ in range(9)))
    with pytest.raises(Stopped):
        retry(call, 600.0, sleep=sleep)
    assert call.calls == 1


def test_coroutines_are_called_again_by_the_callers_clock() -> None:
    now = [0.0]
    told = []

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    def run(call: Troubled, limit_s: float) -> str:
        async def answer() -> str:
            return call()

        return asyncio.run(
            retry_async(
                answer, limit_s, backoff=Backoff(1.0, 2.0, is_jittered=False), sleep=sleep,
                now_s=lambda: now[0], on_failure=lambda _, spent_s: told.append(spent_s),
            )
        )  # fmt: skip

    assert run(Troubled(*(Unavailable("down") for _ in range(3))), 10.0) == "answer"
    assert told == [0.0, 1.0, 3.0]
    with pytest.raises(Unavailable):
        run(Troubled(*(Unavailable("down") for _ in range(9))), 6.0)
    assert now[0] == 5.0 + 6.0  # the last call comes at the limit
    with pytest.raises(NotFound):
        run(Troubled(NotFound("gone")), 10.0)


def test_a_failover_is_waited_for() -> None:
    call = Troubled(Unavailable("standby"), Unavailable("refused"), Starting("blocks missing"))
    assert retry_over_failover(call, 10.0) == "answer"
    assert call.calls == 4


@pytest.mark.parametrize("error", [SafeMode("on"), NotFound("gone")])
def test_what_is_no_failover_is_told_at_once(error: HdfsError) -> None:
    call = Troubled(error)
    with pytest.raises(type(error)):
        retry_over_failover(call, 10.0)
    assert call.calls == 1


def test_a_call_that_took_its_whole_limit_is_not_repeated() -> None:
    silent = Unavailable("no answer")
    silent.__cause__ = DeadlineExceeded("no answer within 8 s")
    call = Troubled(silent)
    with pytest.raises(Unavailable):
        retry_over_failover(call, 10.0)
    assert call.calls == 1


def test_a_failover_that_does_not_end() -> None:
    began = time.monotonic()
    with pytest.raises(Unavailable):
        retry_over_failover(Troubled(*(Unavailable("standby") for _ in range(99))), 0.5)
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
    rename_once(fs, "/a", "/b", overwrite=False)
    assert fs.read_bytes("/b") == b"new"
    fs.write_bytes("/c", b"another's")
    with pytest.raises(AlreadyExists):
        rename_once(fs, "/c", "/b", overwrite=False)
    with pytest.raises(NotFound):
        rename_once(fs, "/nothing", "/d", overwrite=False)


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
