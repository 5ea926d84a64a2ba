"""What an epoch leaves out, as training code asks for it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.unit.train.agent import Agent
from yarnam import train
from yarnam.train import _left_out


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("YARNAM_"):
            monkeypatch.delenv(name)


def test_without_an_agent_it_is_what_was_decided_at_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert train.left_out("train-set", 0) == frozenset()
    monkeypatch.setenv("YARNAM_SKIPPED_TRAIN_SET", "1/a.jsonl\nb.jsonl")
    assert train.left_out("train-set", 3) == {"1/a.jsonl", "b.jsonl"}


def test_the_agent_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with Agent(lambda question: {"left_out": ["a"] * question["epoch"]}) as agent:
        monkeypatch.setenv("YARNAM_INPUTS_SOCKET", agent.address)
        assert train.left_out("set", 0) == frozenset()
        assert train.left_out("set", 1) == {"a"}
    assert agent.questions[1] == {"ask": "left-out", "input": "set", "epoch": 1}


def test_a_broken_connection_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError
        return {"left_out": ["a"]}

    with Agent(answer) as agent:
        monkeypatch.setenv("YARNAM_INPUTS_SOCKET", agent.address)
        assert train.left_out("set", 0) == {"a"}
    assert len(calls) == 2


def test_no_answer_is_never_taken_for_nothing_to_leave_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_left_out, "ANSWER_LIMIT_S", 0.2)
    monkeypatch.setenv("YARNAM_INPUTS_SOCKET", "@nobody-is-here")
    with pytest.raises(train.LeftOutUnknown, match="epoch 2 leaves out is not known"):
        train.left_out("set", 2)
    with Agent(lambda question: {"error": "no data input 'sett'"}) as agent:
        monkeypatch.setenv("YARNAM_INPUTS_SOCKET", agent.address)
        with pytest.raises(train.LeftOutUnknown, match="no data input 'sett'"):
            train.left_out("sett", 0)


def test_epochs_count_from_0() -> None:
    with pytest.raises(ValueError, match="from 0"):
        train.left_out("set", -1)
