"""The files that an epoch excludes, as training code fetches them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.unit.train.agent_server import Agent
from tests.unit.train.sdk_settings import set_sdk
from yarnam import train


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("YARNAM_"):
            monkeypatch.delenv(name)


def test_without_an_agent_it_is_what_was_decided_at_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert train.excluded_files("train-set", 0) == frozenset()
    monkeypatch.setenv("YARNAM_SKIPPED_TRAIN_SET", "1/a.jsonl\nb.jsonl")
    assert train.excluded_files("train-set", 3) == {"1/a.jsonl", "b.jsonl"}


def test_the_list_comes_from_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    with Agent(lambda request: {"excluded": ["a"] * request["epoch"]}) as agent:
        set_sdk(monkeypatch, request_socket=agent.address)
        assert train.excluded_files("set", 0) == frozenset()
        assert train.excluded_files("set", 1) == {"a"}
    assert agent.requests[1] == {"request": "excluded-files", "input": "set", "epoch": 1}


def test_a_broken_connection_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError
        return {"excluded": ["a"]}

    with Agent(answer) as agent:
        set_sdk(monkeypatch, request_socket=agent.address)
        assert train.excluded_files("set", 0) == {"a"}
    assert len(calls) == 2


def test_no_reply_is_never_taken_for_an_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    set_sdk(monkeypatch, request_socket="@nobody-is-here")
    with pytest.raises(train.ExcludedFilesUnknown, match=r"epoch 2 of input 'set' .* not known"):
        train.excluded_files("set", 2, limit_s=0.2)
    with Agent(lambda request: {"error": "no data input 'sett'"}) as agent:
        set_sdk(monkeypatch, request_socket=agent.address)
        with pytest.raises(train.ExcludedFilesUnknown, match="no data input 'sett'"):
            train.excluded_files("sett", 0)


def test_epochs_count_from_0() -> None:
    with pytest.raises(ValueError, match="from 0"):
        train.excluded_files("set", -1)
