"""What one user puts into a history changes nothing in the rows of others, at bounded cost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfs_utils.errors import Unavailable as HdfsUnavailable
from tests.fakes.files import MemoryFiles
from tests.unit.accounting.records import many, numbered, record
from yarnam.adapters.hdfs.histories_of_all import KEPT_S, HistoriesOfAll, ListingOfAll
from yarnam.adapters.hdfs.history_files import HistoryContents
from yarnam.adapters.hdfs.history_store import HistoryListing, HistoryStore
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.accounting.job_summary import HistoryFilter, summary_of
from yarnam.errors import Unavailable
from yarnam.wire.codec import encode

KEY = "20231114-221320-{:06x}"


class Homes:
    """Users' histories in memory, with a count of the calls to HDFS."""

    def __init__(self, most_bytes: int = 1 << 20) -> None:
        self.files = MemoryFiles()
        self.calls: Counter[str] = Counter()
        self.now_s = 0.0
        self.files.fail = self._count
        self.all = HistoriesOfAll(self.store, lambda: self.now_s, most_bytes)

    def _count(self, operation: str, path: str) -> None:
        self.calls[path.split("/")[2] if path.startswith("/user/") else ""] += 1

    def store(self, user: str) -> HistoryStore:
        return HistoryStore(self.files, self.root(user), lambda: 4e9)

    def root(self, user: str) -> str:
        return f"/user/{user}/.yarnam/history"

    def put(self, user: str, count: int = 3) -> list[HistoryRecord]:
        made = [replace(one, user=user) for one in many(count)]
        for one in made:
            self.store(user).put(one)
        return made

    def plant(self, user: str, name: str, data: bytes) -> None:
        path = f"{self.root(user)}/{name}"
        self.files.mkdirs(path.rpartition("/")[0])
        self.files.write_atomic(path, data)

    def listing(self, *users: str, chosen: HistoryFilter | None = None) -> ListingOfAll:
        self.calls.clear()
        return self.all.listing(users or ("ann", "bob", "eve"), "ann", chosen)


@pytest.fixture
def homes() -> Homes:
    return Homes()


def test_all_users_rows_and_each_own_alone(homes: Homes) -> None:
    made = homes.put("ann") + homes.put("bob")
    homes.store("eve").put(replace(numbered(record(), 9), user="bob"))
    found = homes.listing()
    assert set(found.rows) == {summary_of(one) for one in made}
    assert (found.hidden, found.cut, found.unreadable) == ((), (), 0)
    assert homes.store("bob").compact() == 3
    assert set(homes.listing().rows) == set(found.rows)
    assert {row.user for row in homes.listing(chosen=HistoryFilter(user="bob")).rows} == {"bob"}


def test_what_has_not_changed_is_not_read_again(homes: Homes) -> None:
    homes.put("bob")
    assert len(homes.listing("bob", "zoe").rows) == 3
    homes.now_s += 15
    assert len(homes.listing("bob", "zoe").rows) == 3
    assert homes.calls == {"bob": 1}, "one call, and none for who has no history"
    homes.put("bob", 4)
    assert len(homes.listing("bob", "zoe").rows) == 4
    homes.put("zoe", 1)
    homes.now_s += KEPT_S
    assert len(homes.listing("bob", "zoe").rows) == 5


def test_a_record_that_is_moved_while_it_is_read_is_not_missed(homes: Homes) -> None:
    class Moving(HistoryStore):
        def contents(self) -> HistoryContents:
            found = super().contents()
            self.compact()
            return found

    made = homes.put("bob")
    moving = Moving(homes.files, homes.root("bob"), lambda: 4e9)
    found = HistoriesOfAll(lambda _: moving).listing(("bob",), "ann")
    assert set(found.rows) == {summary_of(one) for one in made}
    homes.put("bob", 5)
    assert len(moving.listing().rows) == 5


def test_who_has_much_loses_the_oldest_and_others_nothing() -> None:
    homes = Homes(most_bytes=64 << 10)
    homes.put("bob", 5)
    made = homes.put("eve", 60)
    found = homes.listing()
    rows = [row for row in found.rows if row.user == "eve"]
    assert sum(row.user == "bob" for row in found.rows) == 5
    assert 0 < len(rows) < 60
    assert found.cut == ("eve",)
    newest = sorted((one.key for one in made), reverse=True)[: len(rows)]
    assert sorted((row.key for row in rows), reverse=True) == newest
    own = homes.all.listing(("ann", "eve"), "eve")
    assert len(own.rows) == 60, "one's own history has no limit"


def a_text_in_place_of_a_record(homes: Homes) -> None:
    homes.plant("eve", f"new/{KEY.format(1)}.json", b"no record")


def a_file_in_place_of_the_directory(homes: Homes) -> None:
    homes.files.mkdirs("/user/eve/.yarnam/history")
    homes.files.write_atomic("/user/eve/.yarnam/history/new", b"")
    homes.files.write_atomic("/user/eve/.yarnam/history/months", b"")


def a_file_in_place_of_the_history(homes: Homes) -> None:
    homes.files.mkdirs("/user/eve/.yarnam")
    homes.files.write_atomic("/user/eve/.yarnam/history", b"")


def a_directory_in_place_of_a_record(homes: Homes) -> None:
    homes.files.mkdirs(f"{homes.root('eve')}/new/{KEY.format(1)}.json")


def an_index_longer_than_it_may_be(homes: Homes) -> None:
    homes.plant("eve", "months/2023-11.000001.index", b" " * (17 << 20))


def an_index_of_arrays(homes: Homes) -> None:
    homes.plant("eve", "months/2023-11.000001.index", b'{"x":[' + b"[]," * 300_000 + b"[]]}")


def a_directory_in_place_of_an_index(homes: Homes) -> None:
    homes.files.mkdirs(f"{homes.root('eve')}/months/2023-11.000001.index")


def times_that_cannot_be(homes: Homes) -> None:
    plain = json.loads(encode(replace(numbered(record(), 1), user="eve")))
    plain["ended_at_s"] = 1e300
    homes.plant("eve", f"new/{plain['key']}.json", json.dumps(plain).encode())


@pytest.mark.parametrize(
    "plant",
    [
        a_text_in_place_of_a_record,
        a_file_in_place_of_the_directory,
        a_file_in_place_of_the_history,
        a_directory_in_place_of_a_record,
        an_index_longer_than_it_may_be,
        an_index_of_arrays,
        a_directory_in_place_of_an_index,
        times_that_cannot_be,
    ],
)
def test_no_users_files_end_the_list_of_others(
    plant: Callable[[Homes], None],
) -> None:
    homes = Homes(most_bytes=64 << 20)
    made = homes.put("ann") + homes.put("bob")
    plant(homes)
    for _ in range(2):
        found = homes.listing()
        assert set(found.rows) == {summary_of(one) for one in made}
        assert found.unreadable or found.cut == ("eve",)


def test_a_namenode_that_does_not_answer_is_an_error(homes: Homes) -> None:
    homes.put("bob")

    def down(operation: str, path: str) -> None:
        raise HdfsUnavailable("no answer", path=path, operation=operation)

    homes.files.fail = down
    with pytest.raises(Unavailable):
        homes.listing()


PLAIN = json.loads(encode(record(user="eve")))
JSON = st.recursive(st.none() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=5)
CONTENTS = st.one_of(
    st.binary(max_size=200),
    JSON.map(json.dumps).map(str.encode),
    st.tuples(st.sampled_from(sorted(PLAIN)), JSON).map(
        lambda one: json.dumps({**PLAIN, one[0]: one[1]}).encode()
    ),
)
NAMES = st.sampled_from(
    (
        f"new/{PLAIN['key']}.json",
        f"new/{KEY.format(2)}.json",
        "months/2023-11.000001.index",
        "months/2023-11.999999.index",
        "months/x.segment",
        "pruned-before",
    )
)


@given(st.dictionaries(NAMES, CONTENTS, max_size=6))
def test_arbitrary_files_of_one_user_change_nothing_in_the_rows_of_others(
    planted: dict[str, bytes],
) -> None:
    homes = Homes()
    made = homes.put("ann", 2) + homes.put("bob", 2)
    for name, data in planted.items():
        homes.plant("eve", name, data)
    rows = {row for row in homes.listing().rows if row.user != "eve"}
    assert rows == {summary_of(one) for one in made}


def test_what_was_slow_to_read_is_read_seldom(homes: Homes) -> None:
    homes.put("eve")
    read = HistoryStore.rows

    class Slow(HistoryStore):
        def rows(self, *arguments: Any, **named: Any) -> HistoryListing:
            homes.now_s += 6
            return read(self, *arguments, **named)

    reader = HistoriesOfAll(lambda u: Slow(homes.files, homes.root(u)), lambda: homes.now_s)
    assert len(reader.listing(["eve"], "ann").rows) == 3
    for wait_s, expected in ((15, 3), (50, 4)):
        homes.put("eve", 4)
        homes.now_s += wait_s
        assert len(reader.listing(["eve"], "ann").rows) == expected


def flooded() -> Homes:
    """Records of nearly a megabyte, each of which takes 60 MB while it is decoded, and indexes."""
    homes = Homes(most_bytes=64 << 20)
    homes.put("bob", 2)
    plain = json.loads(encode(replace(numbered(record(), 1), user="eve")))
    plain["excluded_files"] = [{"input": "r", "files": 1, "share": 0.5}] * 20_000
    for number in range(6):
        key = KEY.format(number)
        data = json.dumps({**plain, "key": key}, separators=(",", ":")).encode()
        homes.plant("eve", f"new/{key}.json", data)
    for number in range(10):
        data = b'{"columns":{"key":[' + b'"abcd",' * (2 << 17) + b'"x"]}}'
        homes.plant("eve", f"months/20{number + 10}-01.000001.index", data)
    return homes


MEASURED = """
import logging
import resource
from tests.unit.adapters.test_histories_of_all import flooded
logging.disable()
homes = flooded()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = homes.listing()
assert sum(row.user == "bob" for row in found.rows) == 2
assert found.cut == ("eve",)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_the_memory_of_a_read_is_bounded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURED], stdout=subprocess.PIPE, check=True, text=True
    )
    assert int(done.stdout) < 200 << 10, f"{int(done.stdout) >> 10} MiB"
