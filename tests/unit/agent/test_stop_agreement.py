"""Processes stop after the same step, whenever they are asked."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from yarnam.agent.launch.stop_agreement import StopFile, have_come, least_step, position_file
from yarnam.train._job.stop import _Watch

RANKS = 3
LIMIT_S = 20.0


def train_until_asked(rank: int, stop: str, barrier: Any, ends: Any, seed: int) -> None:
    """As a gang trains: nobody begins a step before all have done the one before."""
    os.environ.update(YARNAM_STOP_FILE=stop, YARNAM_LOCAL_RANK=str(rank))
    watch = _Watch()
    dice = random.Random(seed * RANKS + rank)
    step = 0
    while True:
        time.sleep(dice.random() * 0.004)
        barrier.wait(LIMIT_S)
        step += 1
        if watch.poll(step):
            break
    ends.put((rank, step))


@pytest.mark.parametrize("seed", range(8))
def test_all_stop_after_the_same_step(tmp_path: Path, seed: int) -> None:
    fork = multiprocessing.get_context("fork")
    barrier, ends = fork.Barrier(RANKS), fork.Queue()
    # As on three nodes: each agent has a stop file of its own.
    asks = [StopFile(tmp_path / f"node{rank}-stop") for rank in range(RANKS)]
    processes = [
        fork.Process(target=train_until_asked, args=(rank, str(ask.path), barrier, ends, seed))
        for rank, ask in enumerate(asks)
    ]
    for process in processes:
        process.start()
    dice = random.Random(seed)
    deadline_s = time.monotonic() + LIMIT_S
    while not all(position_file(ask.path, rank).exists() for rank, ask in enumerate(asks)):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    least = []
    for rank, ask in enumerate(asks):
        time.sleep(dice.random() * 0.02)
        ask.write("preempted", 15.0, agree=True)
        least.append(least_step(ask.path, [rank]) or 0)
    step = max(least)
    for ask in asks:
        time.sleep(dice.random() * 0.02)
        ask.write("preempted", 15.0, at_step=step)
    ended = dict(ends.get(timeout=LIMIT_S) for _ in range(RANKS))
    for process in processes:
        process.join(LIMIT_S)
        assert process.exitcode == 0
    assert ended == dict.fromkeys(range(RANKS), step)
    assert all(have_come(ask.path, [rank]) for rank, ask in enumerate(asks))


def test_who_does_not_say_its_step_agrees_on_none(tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    assert least_step(stop, [0]) is None
    position_file(stop, 0).write_bytes(b"short")
    assert least_step(stop, [0]) is None
    position_file(stop, 0).write_bytes((2**62).to_bytes(8, "little") + b"\0")
    assert least_step(stop, [0]) is None
    position_file(stop, 0).write_bytes((7).to_bytes(8, "little") + b"\0")
    assert least_step(stop, [0]) == 8
    assert least_step(stop, [0, 1]) is None
    position_file(stop, 1).write_bytes((9).to_bytes(8, "little") + b"\1")
    assert least_step(stop, [0, 1]) == 9
    assert not have_come(stop, [0, 1])


def test_an_agreement_that_has_failed_lets_the_processes_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = tmp_path / "stop"
    monkeypatch.setenv("YARNAM_STOP_FILE", str(stop))
    watch, ask = _Watch(), StopFile(stop)
    assert not watch.poll(3)
    ask.write("preempted", 15.0, agree=True)
    ask.write("preempted", 15.0)
    ask.write("too late", 15.0, at_step=9)
    assert watch.poll(4)
    assert watch.poll(4)


def test_only_the_process_itself_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data loader that is forked counts other steps."""
    stop = tmp_path / "stop"
    monkeypatch.setenv("YARNAM_STOP_FILE", str(stop))
    watch = _Watch()
    assert not watch.poll(3)
    child = multiprocessing.get_context("fork").Process(target=watch.poll, args=(77,))
    child.start()
    child.join(LIMIT_S)
    assert child.exitcode == 0
    assert least_step(stop, [0]) == 4
