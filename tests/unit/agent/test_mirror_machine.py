"""When the files of a mirrored directory are kept as a set."""

from __future__ import annotations

import pytest

from yarnam.agent.machine import mirror_machine as mm
from yarnam.agent.machine.mirror_machine import FileVersion, KeptSet, Scan, ScannedFile

NEW = KeptSet(1, 1, 10, 1000.0)


def file(name: str, version: int = 1, *, is_open: bool = False) -> ScannedFile:
    return ScannedFile(name, FileVersion(version, version, 7), is_open)


class Play:
    """A mirror, and the time."""

    def __init__(self) -> None:
        self.state = mm.MirrorState()
        self.now_s = 100.0
        self.number = 0
        self.sent: tuple[ScannedFile, ...] = ()

    def scan(
        self, *files: ScannedFile, after_s: float = 2.0, is_last: bool = False, ok: bool = False
    ) -> list[str]:
        """Names of the set that is sent now."""
        self.now_s += after_s
        scan = Scan(self.now_s, files, is_last=is_last, has_succeeded=ok)
        self.state, sent = mm.scanned(self.state, scan)
        self.sent = sent or self.sent
        return [one.name for one in sent]

    def keep(self, *files: ScannedFile) -> Play:
        """The set that these files are is on HDFS."""
        self.scan(*files)
        assert self.scan(*files)
        return self.kept()

    def kept(self) -> Play:
        self.number += 1
        self.state = mm.kept(self.state, self.sent, NEW._replace(number=self.number), self.now_s)
        return self


def test_a_closed_file_counts_at_the_second_scan() -> None:
    play = Play()
    assert play.scan(file("a.pt")) == []
    assert play.scan(file("a.pt")) == ["a.pt"]
    assert play.scan(file("a.pt")) == [], "it is being sent"
    assert play.kept().scan(file("a.pt")) == [], "it is kept"


def test_an_open_file_holds_back_the_set_until_it_has_stood() -> None:
    play, both = Play(), (file("a.pt"), file("b.pt", is_open=True))
    assert [play.scan(*both) for _ in range(5)] == [[]] * 5
    assert play.scan(*both) == ["a.pt", "b.pt"]


def test_a_file_that_grows_is_not_sent() -> None:
    play = Play()
    for size in range(1, 9):
        assert play.scan(file("a.pt"), file("b.bin", size)) == []
    assert play.scan(file("a.pt"), file("b.bin", 8)) == ["a.pt", "b.bin"]


def test_a_set_that_only_lacks_files_saves_nothing() -> None:
    play = Play().keep(file("a.pt"), file("b.pt"))
    assert play.scan(file("b.pt")) == []
    assert play.scan(file("b.pt")) == []
    assert play.scan() == []
    play.scan(file("b.pt"), file("c.pt"))
    assert play.scan(file("b.pt"), file("c.pt")) == ["b.pt", "c.pt"]


def test_a_file_of_the_last_set_that_is_not_whole_keeps_that_set_the_newest() -> None:
    play = Play().keep(file("a.pt"), file("b.pt"))
    new = (file("a.pt", 2), file("b.pt", 2))
    play.scan(*new)
    assert play.scan(*new)
    play.state = mm.unproved(play.state, {"b.pt": "its zip does not read to its end"})
    for _ in range(400):
        assert play.scan(*new) == []
    assert play.state.trouble == "b.pt is not whole: its zip does not read to its end"
    assert play.scan(*new, is_last=True, ok=True) == []
    healed = (file("a.pt", 2), file("b.pt", 3))
    play.scan(*healed)
    assert play.scan(*healed) == ["a.pt", "b.pt"]
    assert play.state.trouble == ""


def test_a_new_file_that_is_not_whole_is_left_aside_when_it_has_stood() -> None:
    play, files = Play(), (file("a.pt"), file("b.pt"))
    play.scan(*files)
    assert play.scan(*files)
    play.state = mm.unproved(play.state, {"b.pt": "torn"})
    assert [play.scan(*files) for _ in range(3)] == [[]] * 3
    assert play.scan(*files, after_s=10.0) == ["a.pt"]


@pytest.mark.parametrize("name", ["a.pt.tmp", ".a.pt", "tmp-checkpoint-5/a.pt", "a.pt.part", "a~"])
def test_a_temporary_file_is_about_to_be_renamed(name: str) -> None:
    play = Play()
    files = (file("a.pt"), file(name))
    assert [play.scan(*files) for _ in range(5)] == [[]] * 5
    assert play.scan(*files) == ["a.pt"]


def test_a_log_that_stays_open_is_left_aside_after_ten_minutes() -> None:
    play, log = Play(), file("log.txt", 1, is_open=True)
    for _ in range(6):
        play.scan(file("a.pt"), log)
    assert [one.name for one in play.sent] == ["a.pt", "log.txt"]
    play.state = mm.unproved(play.state, {}, ["log.txt"])
    sent = [play.scan(file("a.pt"), file("log.txt", n, is_open=True)) for n in range(2, 297)]
    assert sent[:-1] == [[]] * 294
    assert sent[-1] == ["a.pt"]
    assert play.kept().scan(file("a.pt"), file("log.txt", 300, is_open=True)) == []
    closed = file("log.txt", 400)
    play.scan(file("a.pt"), closed)
    assert play.scan(file("a.pt"), closed) == ["a.pt", "log.txt"]


def test_a_writer_that_stalls_is_waited_for() -> None:
    play, files = Play(), (file("a.pt"), file("b.pt", is_open=True))
    for _ in range(6):
        play.scan(*files)
    play.state = mm.unproved(play.state, {"b.pt": "its zip does not read to its end"})
    assert [play.scan(*files) for _ in range(200)] == [[]] * 200
    assert play.state.trouble == "b.pt is not whole: its zip does not read to its end"


def test_a_file_that_is_always_written_to_is_left_aside_after_ten_minutes() -> None:
    play = Play()
    sent = [play.scan(file("a.pt"), file("log.csv", size)) for size in range(1, 302)]
    assert sent[:300] == [[]] * 300
    assert sent[300] == ["a.pt"]


def test_one_that_the_last_set_had_is_not() -> None:
    play = Play().keep(file("a.pt"), file("log.csv"))
    for size in range(2, 400):
        assert play.scan(file("a.pt", 2), file("log.csv", size)) == []
    assert play.state.trouble == "log.csv has been written to for 10 min without a pause"


def test_the_last_scan_takes_what_is_closed_by_now() -> None:
    play = Play().keep(file("a.pt"))
    assert play.scan(file("a.pt", 2), is_last=True) == ["a.pt"]


@pytest.mark.parametrize(("ok", "sent"), [(True, ["a.pt"]), (False, [])])
def test_half_a_save_at_the_end_is_a_leftover_only_after_success(ok: bool, sent: list[str]) -> None:
    play = Play().keep(file("a.pt"))
    files = (file("a.pt", 2), file("b.pt.tmp"))
    assert play.scan(*files, is_last=True, ok=ok) == sent


def test_the_next_set_waits_as_long_as_the_last_one_took() -> None:
    play = Play()
    play.scan(file("a.pt"))
    assert play.scan(file("a.pt"))
    play.now_s += 60.0
    play.kept()
    assert [play.scan(file("a.pt", 2)) for _ in range(29)] == [[]] * 29
    assert play.scan(file("a.pt", 2)) == ["a.pt"]


def test_a_set_that_hdfs_refuses_is_tried_again_with_growing_pauses() -> None:
    play = Play()
    pauses, tried_s = [], 0.0
    for _ in range(600):
        if play.scan(file("a.pt")):
            pauses.append(play.now_s - tried_s)
            tried_s = play.now_s
            play.state = mm.failed(play.state, "QuotaExceeded", play.now_s)
            assert play.state.trouble == "QuotaExceeded"
    assert pauses[1:7] == [10, 20, 40, 80, 160, 300]
    assert play.scan(file("a.pt"), is_last=True) == ["a.pt"], "the last one waits for nothing"
    assert play.kept().state.trouble == ""


def test_files_that_change_faster_than_they_are_sent_are_named() -> None:
    play = Play()
    for version in range(1, 4):
        assert play.state.trouble == ""
        play.scan(file("a.pt", version))
        assert play.scan(file("a.pt", version))
        play.state = mm.changed(play.state, "a.pt")
    play.scan(file("a.pt", 4))
    assert "faster" in play.state.trouble


def test_a_later_attempt_ends_it() -> None:
    play = Play()
    play.scan(file("a.pt"))
    assert play.scan(file("a.pt"))
    play.state = mm.failed(play.state, "belongs to attempt 3 now", play.now_s, is_over=True)
    assert play.scan(file("a.pt", 2), after_s=1e4, is_last=True) == []


def test_a_directory_that_cannot_be_kept_is_named_and_sends_nothing() -> None:
    play = Play()
    scan = Scan(play.now_s, (), "ckpt has more than 10000 entries")
    play.state, sent = mm.scanned(play.state, scan)
    assert (play.state.trouble, sent) == ("ckpt has more than 10000 entries", ())
    play.scan(file("a.pt"))
    assert play.state.trouble == ""
