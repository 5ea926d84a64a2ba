"""The blacklist with its notifier: who watches learns of news, whatever breaks meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

import pytest

from hdfs_utils.blacklist import BlacklistView, FileBlacklist
from hdfs_utils.errors import PermissionDenied
from hdfs_utils.errors import Unavailable as HdfsUnavailable
from tests.fakes.blacklist_notifier import FakeBlacklistNotifier, FakeChannel
from tests.fakes.files import MemoryFiles
from tests.unit.hdfs_utils.blacklist.makers import entry
from yarnam.adapters.hdfs.shared_blacklist import SharedBlacklist, places_of
from yarnam.errors import NoPermission, Unavailable

SOON_S = 5.0


@pytest.fixture
def fs() -> MemoryFiles:
    files = MemoryFiles()
    files.write_bytes("/data/set/1.txt", b"x")
    return files


@pytest.fixture
def shared(fs: MemoryFiles) -> Iterator[Callable[..., SharedBlacklist]]:
    made: list[SharedBlacklist] = []

    def make(
        notifier: FakeBlacklistNotifier | None = None, poll_s: float = 60.0
    ) -> SharedBlacklist:
        made.append(SharedBlacklist(FileBlacklist(fs, "/tmp/open"), notifier, poll_s))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Seen:
    """The paths that were known at each call."""

    def __init__(self) -> None:
        self.looks: list[set[str]] = []
        self._more = threading.Condition()

    def __call__(self, looked: BlacklistView) -> None:
        with self._more:
            self.looks.append({e.path for e in looked.known.trusted.entries.values()})
            self._more.notify_all()

    def wait_for(self, paths: set[str]) -> bool:
        with self._more:
            return self._more.wait_for(lambda: paths in self.looks, SOON_S)


@pytest.mark.parametrize("with_bell", [True, False])
def test_who_watches_learns_of_news(
    fs: MemoryFiles, shared: Callable[..., SharedBlacklist], with_bell: bool
) -> None:
    tower = FakeChannel()
    bells = (
        (FakeBlacklistNotifier(tower), FakeBlacklistNotifier(tower)) if with_bell else (None, None)
    )
    running, finding = shared(bells[0], 60.0 if with_bell else 0.05), shared(bells[1])
    seen = Seen()
    running.watch(["/data/set"], seen)
    assert seen.wait_for(set())
    finding.add([entry("/data/set/1.txt")])
    assert seen.wait_for({"/data/set/1.txt"})
    finding.add([entry("/data/set/2.txt")])
    assert seen.wait_for({"/data/set/1.txt", "/data/set/2.txt"})
    assert len(seen.looks) == 3, "told of each change, and of nothing else"


def test_a_bell_that_does_not_ring_loses_no_entry(
    fs: MemoryFiles, shared: Callable[..., SharedBlacklist], caplog: pytest.LogCaptureFixture
) -> None:
    notifier = FakeBlacklistNotifier(FakeChannel())
    notifier.is_down = True
    (added,) = shared(notifier).add([entry("/data/set/1.txt")])
    assert added.is_trusted
    assert "could not notify" in caplog.text
    assert shared().lookup(["/data/set"]).known.trusted.entries


def test_a_watch_outlives_an_hdfs_that_is_away(
    fs: MemoryFiles, shared: Callable[..., SharedBlacklist], caplog: pytest.LogCaptureFixture
) -> None:
    def away(operation: str, path: str) -> None:
        raise HdfsUnavailable("no answer", path=path)

    fs.fail = away
    seen = Seen()
    watching = shared(poll_s=0.05)
    watching.watch(["/data/set"], seen)
    assert not seen.looks
    fs.fail = lambda _operation, _path: None
    assert seen.wait_for(set())


class Faulty(FileBlacklist):
    """Raises what no file system raises, each once."""

    def __init__(self, fs: MemoryFiles, faults: list[Exception]) -> None:
        super().__init__(fs, "/tmp/open")
        self.faults = faults

    def read(self, paths: Iterable[str], below: Iterable[str] = ()) -> BlacklistView:
        if self.faults:
            raise self.faults.pop(0)
        return super().read(paths, below)


def test_a_watch_outlives_any_fault_and_reports_it(
    fs: MemoryFiles, caplog: pytest.LogCaptureFixture
) -> None:
    faults: list[Exception] = [RecursionError("too deep"), OverflowError("inf"), KeyError("x")]
    watching = SharedBlacklist(Faulty(fs, faults), None, 0.01)
    seen = Seen()

    def changed(looked: BlacklistView) -> None:
        if not seen.looks and not faults:
            seen(looked)
            raise RuntimeError("of who was told")
        seen(looked)

    try:
        watching.watch(["/data/set"], changed)
        assert seen.wait_for(set())
        watching.add([entry("/data/set/1.txt")])
        assert seen.wait_for({"/data/set/1.txt"})
    finally:
        watching.close()
    for fault in ("too deep", "inf", "KeyError", "of who was told"):
        assert fault in caplog.text


def test_a_hostile_file_is_reported_once_and_the_watch_goes_on(
    fs: MemoryFiles, shared: Callable[..., SharedBlacklist], caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(30):
        fs.write_bytes(f"/tmp/open/{number}.json", b"[" * 3000)
    watching = shared(poll_s=0.01)
    seen = Seen()
    watching.watch(["/data/set"], seen)
    assert seen.wait_for(set())
    watching.add([entry("/data/set/1.txt")])
    assert seen.wait_for({"/data/set/1.txt"})
    assert 1 <= caplog.text.count("was not read") <= 10


def test_errors_are_those_of_yarnam(
    fs: MemoryFiles, shared: Callable[..., SharedBlacklist]
) -> None:
    def refuse(operation: str, path: str) -> None:
        if operation in ("create", "mkdirs"):
            raise PermissionDenied("no", path=path)

    fs.fail = refuse
    with pytest.raises(NoPermission, match="input blacklist"):
        shared().add([entry("/data/set/1.txt")])

    def away(operation: str, path: str) -> None:
        raise HdfsUnavailable("no answer", path=path)

    fs.fail = away
    with pytest.raises(Unavailable, match="no answer"):
        shared().lookup(["/data/set"])


def test_a_stopped_watch_is_told_nothing(
    fs: MemoryFiles, shared: Callable[..., SharedBlacklist]
) -> None:
    tower = FakeChannel()
    running, finding = shared(FakeBlacklistNotifier(tower)), shared(FakeBlacklistNotifier(tower))
    seen = Seen()
    watch = running.watch(["/data/set"], seen)
    assert seen.wait_for(set())
    watch.stop()
    finding.add([entry("/data/set/1.txt")])
    assert seen.looks == [set()]


def test_all_places_above_are_listened_to() -> None:
    assert set(places_of(["/a/b/c"])) >= {
        "/a/.yarnam-blacklist",
        "/a/b/.yarnam-blacklist",
        "/a/b/c/.yarnam-blacklist",
    }
