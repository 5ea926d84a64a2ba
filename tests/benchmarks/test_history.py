"""How long a list of 100,000 ended jobs takes.

Generated records, a month's index each, on the local disk by the code that reads HDFS. Printed:
CPU seconds of the whole command (a new process that lists, sorts and sums), and its parts as ratios
to what orjson, the fastest parser there is, needs for the same JSON alone.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import orjson
import pytest

from hdfs_utils import FileSystem, connect
from tests.unit.accounting.records import numbered, record
from tests.unit.gang.play import T0
from yarnam.adapters.hdfs.history_store import HistoryStore
from yarnam.core.accounting.job_summary import HistoryFilter, JobSummary, sum_of, summary_of
from yarnam.core.accounting.usage import usage
from yarnam.wire.shared.history_index import HistoryIndex, Location, encode_index

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

RECORDS = 100_000
LIMIT_S = 2.0
ROUNDS = 3

PROGRAM = """
import sys
from hdfs_utils import connect
from yarnam.adapters.hdfs.history_store import HistoryStore
from yarnam.cli.rendering.console import print_line, print_table
from yarnam.cli.rendering.history_text import HEADERS, row_cells, sum_line
from yarnam.core.accounting.job_summary import HistoryFilter, sum_of
folder = sys.argv[1]
rows = HistoryStore(connect(f"file://{folder}"), f"{folder}/history").listing(HistoryFilter()).rows
rows = sorted(rows, key=lambda row: -row.ended_at_s)
assert len(rows) == int(sys.argv[2])
print_table(HEADERS, [row_cells(row) for row in rows[:50]], colour_column=5)
print_line(sum_line(sum_of(rows)))
"""


def open_store(folder: str) -> HistoryStore:
    return HistoryStore(connect(f"file://{folder}"), f"{folder}/history")


def rows() -> Iterator[JobSummary]:
    good, bad = record(), record(fails=True)
    for number in range(RECORDS):
        yield summary_of(numbered(bad if number % 5 == 4 else good, number))


def write(files: FileSystem, folder: str) -> int:
    """The indexes as compaction leaves them; their size in bytes."""
    size = 0
    files.mkdirs(f"{folder}/history/months")
    for month, found in groupby(rows(), key=lambda row: row.key[:6]):
        mine = tuple(found)
        places = tuple(Location(0, 3000 * number, 3000) for number in range(len(mine)))
        name = f"{month[:4]}-{month[4:]}"
        data = encode_index(HistoryIndex((f"{name}.0.segment",), mine, places))
        files.write_bytes(f"{folder}/history/months/{name}.000001.index", data)
        size += len(data)
    return size


def best_cpu_s(command: list[str]) -> float:
    """Of a child process."""
    taken = []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


def best_s(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


def test_a_hundred_thousand_records(tmp_path: Path) -> None:
    folder = str(tmp_path)
    size = write(connect(f"file://{folder}"), folder)
    store = open_store(folder)
    whole = [path.read_bytes() for path in (tmp_path / "history" / "months").iterdir()]
    parse_s = best_s(lambda: [orjson.loads(data) for data in whole])
    all_s = best_s(store.listing)
    chosen = HistoryFilter(queue="root.team1", since_s=T0 - 30 * 86400)
    some_s = best_s(lambda: store.listing(chosen))
    listed = store.listing().rows
    sum_s = best_s(lambda: sum_of(listed))
    usage_s = best_s(lambda: usage(listed, ("queue", "user", "week")))
    command = [sys.executable, "-c", PROGRAM, folder, str(RECORDS)]
    command_s = best_cpu_s(command)
    print(
        f"\n{RECORDS} records, {size / 1e6:.0f} MB of indexes, {size // RECORDS} bytes a record"
        f"\nthe whole command: {command_s:.2f} s of CPU, limit {LIMIT_S} s"
        f"\norjson: {parse_s:.2f} s; all rows: {all_s / parse_s:.1f} of it; a month's rows of one"
        f" team: {some_s / parse_s:.1f}; sum: {sum_s / parse_s:.1f}; usage: {usage_s / parse_s:.1f}"
    )
