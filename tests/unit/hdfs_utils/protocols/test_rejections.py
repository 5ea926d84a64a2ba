"""Warnings are counted, bounded, and name path, owner and advice."""

from __future__ import annotations

import logging

import pytest

from hdfs_utils.protocols.rejections import MAX_PATHS, Rejections

LOG = logging.getLogger("tests.rejections")


@pytest.fixture
def rejections() -> Rejections:
    return Rejections(LOG, "is passed over", "Delete it.")


def test_a_warning_names_path_owner_reason_and_advice(
    rejections: Rejections, caplog: pytest.LogCaptureFixture
) -> None:
    rejections.add("/queue/x", ValueError("not JSON"), owner="eve")
    assert caplog.messages == ["/queue/x of eve is passed over: not JSON. Delete it."]


def test_it_comes_at_the_1st_10th_and_100th_time(
    rejections: Rejections, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(150):
        rejections.add("/a", ValueError("no"))
    assert caplog.messages == [
        "/a is passed over: no. Delete it.",
        "/a is passed over (10 times now): no. Delete it.",
        "/a is passed over (100 times now): no. Delete it.",
    ]
    assert rejections.total == 150


def test_many_paths_take_neither_memory_nor_log(
    rejections: Rejections, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(20 * MAX_PATHS):
        rejections.add(f"/{number}", ValueError("no"))
    assert len(caplog.messages) < MAX_PATHS + 10
    assert len(rejections._counts) == MAX_PATHS + 1
    assert rejections.total == 20 * MAX_PATHS


def test_names_cannot_speak_to_the_terminal(
    rejections: Rejections, caplog: pytest.LogCaptureFixture
) -> None:
    rejections.add("/\x1b[2J", ValueError("\x9b1m"), owner="\x1b]0;x")
    assert caplog.messages[0].isprintable()
