"""The text of logs on a page: its end, as a terminal shows it, and never as markup."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.web.html_pages import HOSTILE, Page
from tests.unit.web.job_values import APPLICATION, NOW_S
from yarnam.web import log_page as module
from yarnam.web.log_page import LogChoice, LogsView, LogText, log_choice, log_page, log_tails


def page(**given: object) -> Page:
    view = {
        "application": APPLICATION, "name": "train", "is_live": True,
        "chosen": LogChoice(rank=3), "home": "/", "at_s": NOW_S, **given,
    }  # fmt: skip
    return Page(log_page(LogsView(**view)))  # type: ignore[arg-type]


def test_the_page_has_the_text_and_how_to_read_all_of_it() -> None:
    shown = page(logs=[LogText("worker-1, rank 3", "step 1\nstep 2", is_cut=True)], notes=["odd"])
    assert "step 1\nstep 2" in shown.text
    for text in ("worker-1, rank 3", "It begins earlier", "odd", "Rank 2", "Rank 4"):
        assert text in shown.words
    assert f"yarnam logs {APPLICATION} --rank 3" in shown.words
    last = page(last_rank=3).words
    assert "Rank 2" in last
    assert "Rank 4" not in last
    agents = page(chosen=LogChoice("agent"), is_live=False).words
    assert f"yarnam logs {APPLICATION} --agent" in agents
    assert "No logs." in agents


def test_text_of_others_never_becomes_markup() -> None:
    calm, attacked = (
        page(
            name=text, application=text, chosen=LogChoice(task=text),
            logs=[LogText(text, text)], notes=[text],
        )
        for text in ("t", HOSTILE)
    )  # fmt: skip
    assert [tag for tag, _ in calm.tags] == [tag for tag, _ in attacked.tags]
    assert [set(found) for _, found in calm.tags] == [set(found) for _, found in attacked.tags]
    assert "alert(1)" in attacked.text
    assert "\u202e" not in attacked.text


def test_pieces_are_joined_by_their_log_in_the_order_of_the_first() -> None:
    pieces = [("b", b"one\ntw"), ("a", b"x\n"), ("b", "o\u00e9\n".encode()), ("b", b"\xff")]
    logs, notes = log_tails(pieces)
    assert [(one.title, one.text, one.is_cut) for one in logs] == [
        ("b", "one\ntwo\u00e9\n\ufffd", False), ("a", "x\n", False),
    ]  # fmt: skip
    assert notes == []


def test_of_a_long_log_the_end_is_shown_from_the_start_of_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    (log,), _ = log_tails([("a", b"0123456789\n"), ("a", b"line 1\nend")])
    assert (log.text, log.is_cut) == ("end", True)
    (log,), _ = log_tails([("a", b"x" * 30)])
    assert (log.text, log.is_cut) == ("x" * 10, True)


def test_a_progress_bar_and_colours_read_as_on_a_terminal() -> None:
    (log,), _ = log_tails([("a", b"10%\r20%\r30%\r\n\x1b[31mred\x1b[0m\r\n50%\r60%")])
    assert log.text == "30%\nred\n60%"


def test_too_many_logs_and_endless_ones_end(monkeypatch: pytest.MonkeyPatch) -> None:
    logs, notes = log_tails((f"rank {n}", b"x\n") for n in range(20))
    assert len(logs) == module.MAX_LOGS
    assert notes == ["4 more logs are not shown: choose a rank or a task."]

    def endless() -> Iterator[tuple[str, bytes]]:
        while True:
            yield "a", b"x" * 1000

    monkeypatch.setattr(module, "MAX_READ_BYTES", 1 << 20)
    _, notes = log_tails(endless())
    assert notes == ["Only the first 1 MiB of these lines were read."]


def test_which_logs_an_address_chooses() -> None:
    assert log_choice({}) == LogChoice()
    assert log_choice({"rank": " 3 ", "source": "agent", "task": ""}) == LogChoice("agent", 3)
    assert log_choice({"task": "worker-0"}) == LogChoice(task="worker-0")
    for wrong in ({"rank": "\u0663"}, {"rank": "1" * 10}, {"source": "x"}, {"task": "t" * 201}):
        assert log_choice(wrong) is None
