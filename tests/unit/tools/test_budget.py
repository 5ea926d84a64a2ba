"""The report of `make check` on how much there is to maintain."""

from __future__ import annotations

import re

from tools.budget import report


def test_the_report_counts_each_kind() -> None:
    counts = [int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", report())]
    assert len(counts) == 4
    assert all(counts)
