"""Records of others: what cannot be true does not count, and what counts can be shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.accounting.records import numbered, record
from yarnam.adapters.hdfs.history_files import decoded
from yarnam.cli.rendering.console import clock_time, date_time
from yarnam.cli.rendering.history_text import (
    hours,
    record_lines,
    row_cells,
    sum_line,
    summary_plain,
    usage_cells,
)
from yarnam.client.queues.what_if import past_job
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_summary import sum_of, summary_of
from yarnam.core.accounting.philly import philly_job
from yarnam.core.accounting.record_checks import MOST_NAME, believed_record
from yarnam.core.accounting.usage import GROUPS, usage
from yarnam.core.model.printable import duration
from yarnam.errors import WireMismatch
from yarnam.web.cluster_pages import JobFilter, JobsView, jobs_page, view_of_record
from yarnam.web.job_page import job_page
from yarnam.wire.codec import encode
from yarnam.wire.shared.history_index import HistoryIndex, Location, decode_index, encode_index

EXTREMES: tuple[float, ...] = (
    1e300, -1e308, 2**70, -(2**70), 2.0**53, 2**32 + 1, -1, -1.5, 1e14, 0, 5,
)  # fmt: skip


def leaves(plain: Any) -> Iterator[tuple[Any, Any]]:
    """Where the numbers are: a container and the key in it."""
    for key, value in plain.items() if isinstance(plain, dict) else enumerate(plain):
        if isinstance(value, (dict, list)):
            yield from leaves(value)
        elif type(value) in (int, float):
            yield plain, key


def show(one: HistoryRecord) -> None:
    """As `history`, `usage`, `queues what-if` and the pages of `ui` do."""
    row = summary_of(one)
    assert all(row_cells(row))
    assert [*record_lines(one), sum_line(sum_of([row]))]
    json.dumps(summary_plain(row))
    for used in usage([row], list(GROUPS)):
        usage_cells(used)
    philly_job(one)
    past_job(one)
    decode_index(encode_index(HistoryIndex(("a.segment",), (row,), (Location(0, 0, 1),))))


def test_a_record_of_any_number_is_refused_or_can_be_shown() -> None:
    plain = json.loads(encode(record(fails=True)))
    refused = shown = 0
    for container, key in leaves(plain):
        usual = container[key]
        for value in EXTREMES:
            container[key] = type(usual)(value) if abs(value) < 2**53 else value
            try:
                one = decoded(json.dumps(plain).encode())
            except WireMismatch:
                refused += 1
            else:
                show(one)
                shown += 1
        container[key] = usual
    assert min(refused, shown) > 100


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ended_at_s", 1e300), ("ended_at_s", float("nan")), ("submitted_at_s", -1e308),
        ("submitted_at_s", 2.0**33), ("started_at_s", -1.0), ("declared_s", float("inf")),
        ("restarts", -1), ("step", 2**64), ("name", "n" * (MOST_NAME + 1)),
        ("output", "o" * 20_000),
    ],
)  # fmt: skip
def test_what_no_job_writes_is_refused_by_its_name(name: str, value: Any) -> None:
    assert name in str(believed_record(record(**{name: value})))


def test_a_true_record_is_believed_as_it_is() -> None:
    for one in (record(), record(fails=True)):
        assert believed_record(one) is one
        assert decoded(encode(one)) == one
        view = view_of_record(one, 0.0, "/")
        assert job_page(view)
        assert jobs_page(JobsView(0.0, (), (summary_of(one),), JobFilter(), ()))


@pytest.mark.parametrize("name", ["ended_at_s", "submitted_at_s", "started_at_s", "queue"])
def test_an_index_has_the_same_limits(name: str) -> None:
    value: Any = "q" * (MOST_NAME + 1) if name == "queue" else 1e14
    row = summary_of(numbered(record(), 1))._replace(**{name: value})
    index = encode_index(HistoryIndex(("a.segment",), (row,), (Location(0, 0, 1),)))
    with pytest.raises(WireMismatch, match=name):
        decode_index(index)


@pytest.mark.parametrize("value", [1e300, -1e308, float("inf"), float("-inf"), float("nan"), -1.0])
def test_any_number_can_be_shown_as_a_time(value: float) -> None:
    assert duration(value)[-1] in "smhd"
    assert date_time(value)[:4] in {"1969", "1970", "9999"}
    assert clock_time(value)
    assert hours(value)
    row = summary_of(record())._replace(ended_at_s=value)
    assert row_cells(row)
    assert usage([row], ["week"])
    assert philly_job(replace(record(), ended_at_s=value))
