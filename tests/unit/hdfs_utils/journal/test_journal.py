"""The journal, on the file system in memory: crashes, stale writers, torn ends, damage."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hdfs_utils import TimeLimits
from hdfs_utils.errors import CorruptData, Fenced, InvalidPath, NotFound, SafeMode, Unavailable
from hdfs_utils.journal import format as fmt
from hdfs_utils.journal.log import AppendLog, read_journal
from tests.fakes.files import MemoryFiles, fail_on

HOME = "/jobs/j1/journal"


@pytest.fixture
def fs() -> MemoryFiles:
    return MemoryFiles()


def segment(epoch: int, part: int = 0) -> str:
    return f"{HOME}/{fmt.segment_name(epoch, part)}"


def test_records_come_back_in_order(fs: MemoryFiles) -> None:
    with AppendLog.open(fs, HOME) as log:
        assert log.recovered.records == ()
        log.append([b"one", b"two"])
        log.append([])
        log.append([b"", b"line\nfeed", b"\x00\xff"])
    expected = (b"one", b"two", b"", b"line\nfeed", b"\x00\xff")
    assert read_journal(fs, HOME).records == expected
    assert AppendLog.open(fs, HOME).recovered.records == expected


def test_the_directory_may_be_a_uri_of_this_file_system(fs: MemoryFiles) -> None:
    with AppendLog.open(fs, f"{fs.uri}{HOME}") as log:
        log.append([b"one"])
    assert read_journal(fs, f"{fs.uri}{HOME}/").records == (b"one",)
    for call in (AppendLog.open, read_journal):
        with pytest.raises(InvalidPath):
            call(fs, f"hdfs://elsewhere{HOME}")


def test_no_journal_is_an_empty_one(fs: MemoryFiles) -> None:
    content = read_journal(fs, HOME)
    assert (content.records, content.epoch, content.torn_bytes) == ((), 0, 0)


def test_a_reader_sees_what_was_acknowledged_while_the_writer_lives(fs: MemoryFiles) -> None:
    log = AppendLog.open(fs, HOME)
    log.append([b"one"])
    assert read_journal(fs, HOME).records == (b"one",)
    log.append([b"two"])
    assert read_journal(fs, HOME).records == (b"one", b"two")


def unreadable_while_open() -> Callable[[str, str], None]:
    """As HDFS has it after the restart of the only DataNode of a file's last block."""
    closed: set[str] = set()

    def hook(used: str, path: str) -> None:
        if used == "recover lease":
            closed.add(path)
        if used == "open" and path not in closed:
            raise Unavailable("Cannot obtain block length")

    return hook


def test_the_files_that_a_dead_writer_left_open_are_closed_to_be_read(fs: MemoryFiles) -> None:
    AppendLog.open(fs, HOME).append([b"one"])
    AppendLog.open(fs, HOME).append([b"two"])
    fs.fail = unreadable_while_open()
    assert read_journal(fs, HOME, is_over=True).records == (b"one", b"two")


def test_a_living_writer_keeps_its_file(fs: MemoryFiles) -> None:
    log = AppendLog.open(fs, HOME)
    log.append([b"one"])
    whole, fs.fail = fs.fail, unreadable_while_open()
    with pytest.raises(Unavailable):
        read_journal(fs, HOME)
    fs.fail = whole
    log.append([b"two"])
    assert read_journal(fs, HOME).records == (b"one", b"two")


def test_a_stale_writer_is_fenced_and_harmless(fs: MemoryFiles) -> None:
    stale = AppendLog.open(fs, HOME)
    stale.append([b"one"])
    log = AppendLog.open(fs, HOME)
    assert log.recovered.records == (b"one",)
    for _ in range(2):
        with pytest.raises(Fenced, match="epoch 2"):
            stale.append([b"stale"])
    log.append([b"two"])
    stale.close()
    assert read_journal(fs, HOME).records == (b"one", b"two")


def test_epochs_only_grow(fs: MemoryFiles) -> None:
    log = AppendLog.open(fs, HOME, epoch=7)
    log.append([b"one"])
    for epoch in (0, 6, 7):
        with pytest.raises(Fenced):
            AppendLog.open(fs, HOME, epoch=epoch)
    log.append([b"two"])
    assert AppendLog.open(fs, HOME).epoch == 8


def test_an_opener_that_died_before_its_header_changes_nothing(fs: MemoryFiles) -> None:
    AppendLog.open(fs, HOME).append([b"one"])
    fs.open_writer(segment(2))  # created, nothing written, gone
    torn = fs.open_writer(segment(3))
    torn.write(fmt.encode(0, fmt.Header(3, {}).encode())[:-5])
    torn.sync()
    assert read_journal(fs, HOME).records == (b"one",)
    log = AppendLog.open(fs, HOME)
    assert (log.epoch, log.recovered.records) == (4, (b"one",))


def test_a_record_that_was_not_acknowledged_may_be_torn(fs: MemoryFiles) -> None:
    log = AppendLog.open(fs, HOME)
    log.append([b"one"])
    log._writer.write(fmt.encode(2, b"torn")[:-3])  # type: ignore[union-attr]
    log._writer.sync()  # type: ignore[union-attr]
    content = read_journal(fs, HOME)
    assert content.records == (b"one",)
    assert content.torn_bytes == len(fmt.encode(2, b"torn")) - 3
    with AppendLog.open(fs, HOME) as successor:
        successor.append([b"two"])
    assert read_journal(fs, HOME).records == (b"one", b"two")


def test_a_broken_pipeline_is_replaced_by_a_new_part(fs: MemoryFiles) -> None:
    log = AppendLog.open(fs, HOME)
    log.append([b"one"])
    fs.fail = fail_on("sync", Unavailable("pipeline broke"))
    log.append([b"two"])
    log.append([b"three"])
    assert fs.exists(segment(1, 1))
    assert read_journal(fs, HOME).records == (b"one", b"two", b"three")
    assert AppendLog.open(fs, HOME).recovered.records == (b"one", b"two", b"three")


def test_parts_that_were_given_up_are_closed_with_the_journal(fs: MemoryFiles) -> None:
    log = AppendLog.open(fs, HOME)
    log.append([b"one"])
    fs.fail = fail_on("sync", Unavailable("pipeline broke"))
    log.append([b"two"])
    assert fs.exists(segment(1, 1))
    log.close()
    # Who may go on with a file finds it closed.
    for part in (0, 1):
        fs.open_appender(segment(1, part)).close()


def test_what_an_old_part_holds_beyond_its_cut_does_not_count(fs: MemoryFiles) -> None:
    log = AppendLog.open(fs, HOME)
    log.append([b"one"])
    first = log._writer
    assert first is not None
    fs.fail = fail_on("sync", Unavailable("no answer"))
    log.append([b"two"])
    # The call that got no answer takes effect after all, when its record is in the new part.
    first.sync()
    assert b"two" in fs.read_synced(segment(1, 0))
    assert read_journal(fs, HOME).records == (b"one", b"two")


def test_more_new_parts_follow_within_the_limit(fs: MemoryFiles) -> None:
    log = AppendLog.open(fs, HOME)
    log.append([b"one"])
    fs.fail = fail_on("sync", Unavailable("the dead DataNode again"), times=4)
    log.append([b"two"])
    assert fs.exists(segment(1, 4))
    assert read_journal(fs, HOME).records == (b"one", b"two")


def test_parts_that_could_not_be_made_take_nothing_with_them(fs: MemoryFiles) -> None:
    """A NameNode in safe mode lists what there is and creates nothing: the part that comes after
    has to know the last one that there was, by its own name."""
    log = AppendLog.open(fs, HOME)
    log.append([b"one"])
    broken, safe = (
        fail_on("sync", Unavailable("its pipeline went with the NameNode")),
        fail_on("create", SafeMode("still starting"), times=3),
    )

    def hook(operation: str, path: str) -> None:
        broken(operation, path)
        safe(operation, path)

    fs.fail = hook
    log.append([b"two"])
    assert fs.exists(segment(1, 4))
    log.append([b"three"])
    assert read_journal(fs, HOME).records == (b"one", b"two", b"three")
    assert AppendLog.open(fs, HOME).recovered.records == (b"one", b"two", b"three")


def test_append_gives_up_at_the_limit_and_stays_broken(fs: MemoryFiles) -> None:
    fs.limits = TimeLimits(data_s=0.0)
    log = AppendLog.open(fs, HOME)
    log.append([b"one"])
    fs.fail = fail_on("sync", Unavailable("down"), times=2)
    with pytest.raises(Unavailable, match="down"):
        log.append([b"two"])
    with pytest.raises(Unavailable, match="down"):
        log.append([b"three"])
    log.close()
    recovered = AppendLog.open(fs, HOME).recovered
    assert recovered.records == (b"one",)


def test_a_name_node_that_is_down_ends_the_append_at_once(fs: MemoryFiles) -> None:
    log = AppendLog.open(fs, HOME)
    calls: list[str] = []

    def down(operation: str, _path: str) -> None:
        calls.append(operation)
        raise Unavailable("no NameNode")

    fs.fail = down
    with pytest.raises(Unavailable):
        log.append([b"one"])
    # One wait for the limit of the write, one for the look at newer epochs; no more.
    assert calls == ["write", "list"]


def test_a_lost_lease_without_a_newer_epoch_goes_on(fs: MemoryFiles) -> None:
    log = AppendLog.open(fs, HOME)
    log.append([b"one"])
    fs.recover_lease(segment(1))
    log.append([b"two"])
    assert read_journal(fs, HOME).records == (b"one", b"two")


def test_a_deleted_journal_is_not_begun_again(fs: MemoryFiles) -> None:
    log = AppendLog.open(fs, HOME)
    log.append([b"one"])
    fs.delete(HOME, recursive=True)
    for _ in range(2):
        with pytest.raises(NotFound):
            log.append([b"two"])
    assert not fs.exists(HOME)


def test_a_journal_that_lost_a_segment_is_not_gone_on_with(fs: MemoryFiles) -> None:
    AppendLog.open(fs, HOME).append([b"one"])
    log = AppendLog.open(fs, HOME)
    fs.delete(segment(1))
    fs.fail = fail_on("sync", Unavailable("pipeline broke"))
    with pytest.raises(CorruptData, match="segments are gone"):
        log.append([b"two"])
    with pytest.raises(NotFound):
        read_journal(fs, HOME)


def test_an_opening_that_fails_can_be_repeated(fs: MemoryFiles) -> None:
    AppendLog.open(fs, HOME).append([b"one"])
    fs.fail = fail_on("sync", SafeMode("safe mode"))
    with pytest.raises(SafeMode):
        AppendLog.open(fs, HOME)
    assert AppendLog.open(fs, HOME).recovered.records == (b"one",)


def at(fs: MemoryFiles, operation: str, count: int, call: Callable[[], object]) -> None:
    """Do ``call`` just before the ``count``-th ``operation`` from now on."""
    left = [count]

    def hook(used: str, _path: str) -> None:
        if used == operation:
            left[0] -= 1
            if left[0] == 0:
                fs.fail = lambda _operation, _path: None
                call()

    fs.fail = hook


@pytest.mark.parametrize(("operation", "count"), [("create", 1), ("list", 2), ("write", 1)])
def test_a_racing_opener_with_a_lower_epoch_loses(
    fs: MemoryFiles, operation: str, count: int
) -> None:
    AppendLog.open(fs, HOME).append([b"one"])
    winner: list[AppendLog] = []
    at(fs, operation, count, lambda: winner.append(AppendLog.open(fs, HOME, epoch=9)))
    with pytest.raises(Fenced):
        AppendLog.open(fs, HOME)
    winner[0].append([b"two"])
    assert read_journal(fs, HOME).records == (b"one", b"two")


@pytest.mark.parametrize("operation", ["list", "create", "write", "sync"])
def test_a_successor_that_opens_while_a_new_part_is_begun_wins(
    fs: MemoryFiles, operation: str
) -> None:
    stale = AppendLog.open(fs, HOME)
    stale.append([b"one"])
    winner: list[AppendLog] = []
    broken = fail_on("sync", Unavailable("pipeline broke"))

    def hook(used: str, path: str) -> None:
        try:
            broken(used, path)
        except Unavailable:
            at(fs, operation, 1, lambda: winner.append(AppendLog.open(fs, HOME)))
            raise

    fs.fail = hook
    with pytest.raises(Fenced):
        stale.append([b"stale"])
    winner[0].append([b"two"])
    assert read_journal(fs, HOME).records == (b"one", b"two")


def damage(fs: MemoryFiles, path: str, data: bytes) -> None:
    fs.recover_lease(path)
    fs.write_bytes(path, data, overwrite=True)


def test_damage_before_the_end_is_never_silent(fs: MemoryFiles) -> None:
    with AppendLog.open(fs, HOME) as log:
        log.append([b"one", b"two", b"three"])
    whole = fs.read_bytes(segment(1))
    at = whole.index(b"two")
    damage(fs, segment(1), whole[:at] + b"xwo" + whole[at + 3 :])
    with pytest.raises(CorruptData, match="damaged at byte"):
        read_journal(fs, HOME)
    damage(fs, segment(1), whole.replace(fmt.encode(2, b"two"), b""))
    with pytest.raises(CorruptData, match="record 3 where 2 belongs"):
        read_journal(fs, HOME)
    damage(fs, segment(1), fmt.encode(1, b"one"))
    with pytest.raises(CorruptData, match="without a header"):
        read_journal(fs, HOME)


def test_an_older_segment_must_be_whole_up_to_its_cut(fs: MemoryFiles) -> None:
    for records in ([b"one", b"two"], [b"three"]):
        with AppendLog.open(fs, HOME) as log:
            log.append(records)
    whole = fs.read_bytes(segment(1))
    damage(fs, segment(1), whole[:-1])
    with pytest.raises(CorruptData, match="acknowledged"):
        read_journal(fs, HOME)
    damage(fs, segment(1), whole[:-2] + b"x\n")
    with pytest.raises(CorruptData, match="damaged"):
        read_journal(fs, HOME)
    damage(fs, segment(1), whole + b"anything at all")
    assert read_journal(fs, HOME).records == (b"one", b"two", b"three")


def test_a_future_format_is_refused(fs: MemoryFiles) -> None:
    fs.write_bytes(segment(1), fmt.encode(0, b'{"version":2,"epoch":1,"cuts":{}}'))
    with pytest.raises(CorruptData, match="version 2"):
        read_journal(fs, HOME)


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_any_truncation_gives_a_prefix(records: list[bytes], data: st.DataObject) -> None:
    frames = [fmt.encode(0, fmt.Header(1, {}).encode())]
    frames += [fmt.encode(n, record) for n, record in enumerate(records, 1)]
    whole = b"".join(frames)
    cut = data.draw(st.integers(len(frames[0]), len(whole)))
    found = fmt.parse_segment(whole[:cut], "x")
    payloads = [frame.payload for frame in found.records]
    assert payloads == records[: len(payloads)]
    assert sum(map(len, frames[: len(payloads) + 1])) + found.torn == cut
    if cut == len(whole):
        assert payloads == records


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6), st.data())
def test_a_flipped_bit_never_gives_other_records(records: list[bytes], data: st.DataObject) -> None:
    whole = bytearray(fmt.encode(0, fmt.Header(1, {}).encode()) + fmt.encode_all(1, records))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = fmt.parse_segment(bytes(whole), "x")
    except CorruptData:
        return
    payloads = [frame.payload for frame in found.records]
    assert payloads == records[: len(payloads)]


class Journals(RuleBasedStateMachine):
    """Openers, appends, crashes and failures in any order, against a plain list."""

    @initialize()
    def begin(self) -> None:
        self.fs = MemoryFiles()
        self.fs.limits = TimeLimits(data_s=0.0)  # two tries for each append
        self.logs: list[AppendLog] = []
        self.acknowledged: list[bytes] = []
        # A failed append may or may not have left its records.
        self.uncertain: list[bytes] = []
        self.count = 0

    @rule(fails=st.booleans())
    def open(self, fails: bool) -> None:
        if fails:
            self.fs.fail = fail_on("sync", Unavailable("broken"))
        try:
            log = AppendLog.open(self.fs, HOME)
        except Unavailable:
            return
        finally:
            self.fs.fail = lambda _operation, _path: None
        self.logs.append(log)
        self.settle(list(log.recovered.records))

    @precondition(lambda self: self.logs)
    @rule(data=st.data(), failures=st.integers(0, 3), where=st.sampled_from(["write", "sync"]))
    def append(self, data: st.DataObject, failures: int, where: str) -> None:
        log = data.draw(st.sampled_from(self.logs))
        self.count += 1
        batch = [b"%d-%d" % (self.count, n) for n in range(self.count % 3 + 1)]
        is_newest = log is self.logs[-1]
        self.fs.fail = fail_on(where, Unavailable("broken"), failures)
        try:
            log.append(batch)
        except Fenced:
            pass
        except Unavailable:
            if is_newest and failures > 1 and not self.uncertain:
                self.uncertain = batch
        else:
            assert is_newest, "a stale writer was told that its records are safe"
            self.acknowledged += batch
        finally:
            self.fs.fail = lambda _operation, _path: None

    @precondition(lambda self: self.logs)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.logs)).close()

    def settle(self, found: list[bytes]) -> None:
        assert found in (self.acknowledged, self.acknowledged + self.uncertain)
        self.acknowledged = found
        self.uncertain = []

    @invariant()
    def reader_agrees(self) -> None:
        if hasattr(self, "fs"):
            found = list(read_journal(self.fs, HOME).records)
            assert found in (self.acknowledged, self.acknowledged + self.uncertain)


Journals.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestJournals = Journals.TestCase
