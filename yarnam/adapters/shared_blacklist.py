"""The input blacklist on HDFS, with a bell where there is one and a look now and then anyway."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from hdfs_utils import errors as hdfs
from hdfs_utils.blacklist import Added, Entry, FileBlacklist, Known, Looked
from hdfs_utils.blacklist.places import ancestors, open_place, place_in
from hdfs_utils.errors import HdfsError
from yarnam.errors import NoPermission, Unavailable, YarnamError
from yarnam.ports.blacklist import Bell, Watch

log = logging.getLogger("yarnam.blacklist")

POLL_S = 30.0
"""Between two looks of a running job without a bell: a few questions to the NameNode each."""

POLL_WITH_BELL_S = 300.0
"""With one: for what was written by somebody whose bell did not ring."""

STOP_LIMIT_S = 2.0
"""For a watch's thread to end; one that hangs in a call to HDFS is left to that call's limit."""


class SharedBlacklist:
    """See :class:`yarnam.ports.blacklist.InputBlacklist`."""

    def __init__(
        self, files: FileBlacklist, bell: Bell | None = None, poll_s: float | None = None
    ) -> None:
        self._files = files
        self._bell = bell
        self._poll_s = poll_s or (POLL_WITH_BELL_S if bell else POLL_S)
        self._watches: list[_Watch] = []

    def look(self, paths: Iterable[str], below: Iterable[str] = ()) -> Looked:
        with _hdfs_errors("reading the input blacklist"):
            return self._files.look(paths, below)

    def add(self, entries: Iterable[Entry], at: str | None = None) -> tuple[Added, ...]:
        with _hdfs_errors("adding to the input blacklist"):
            added = self._files.add(entries, at)
        if self._bell is not None and added:
            try:
                self._bell.ring(sorted({one.place for one in added}))
            except Unavailable as error:
                # The entries are safe; running jobs come by within their poll.
                log.warning("nobody was told of the new entries: %s", error.message)
        return added

    def watch(self, paths: Iterable[str], changed: Callable[[Looked], None]) -> Watch:
        watch = _Watch(self, tuple(paths), changed, self._poll_s)
        watch.start(self._bell)
        self._watches.append(watch)
        return watch

    def close(self) -> None:
        for watch in self._watches:
            watch.stop()
        self._watches.clear()
        if self._bell is not None:
            self._bell.close()


class _Watch:
    def __init__(
        self,
        blacklist: SharedBlacklist,
        paths: tuple[str, ...],
        changed: Callable[[Looked], None],
        poll_s: float,
    ) -> None:
        self._blacklist = blacklist
        self._paths = paths
        self._changed = changed
        self._poll_s = poll_s
        self._wake = threading.Event()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="blacklist-watch", daemon=True)
        self._listening: Watch | None = None

    def start(self, bell: Bell | None) -> None:
        if bell is not None:
            self._listening = bell.listen(places_of(self._paths), self._wake.set)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopped = True
        self._wake.set()
        if self._listening is not None:
            self._listening.stop()
        if self._thread is not threading.current_thread():
            self._thread.join(STOP_LIMIT_S)

    def _run(self) -> None:
        before: Known | None = None
        trouble = ""
        while not self._is_stopped:
            try:
                looked = self._blacklist.look(self._paths)
            except YarnamError as error:
                if trouble != error.message:
                    log.warning("%s; trying again every %g s", error.message, self._poll_s)
                trouble = error.message
            else:
                trouble = ""
                if looked.known != before and not self._is_stopped:
                    before = looked.known
                    self._changed(looked)
            self._wake.wait(self._poll_s)
            self._wake.clear()


def places_of(paths: Iterable[str]) -> tuple[str, ...]:
    """All places that may speak about these paths."""
    found: dict[str, None] = {open_place(): None}
    for path in paths:
        found.update(dict.fromkeys(place_in(above) for above in (*ancestors(path), path)))
    return tuple(found)


@contextmanager
def _hdfs_errors(doing: str) -> Iterator[None]:
    try:
        yield
    except (hdfs.PermissionDenied, hdfs.QuotaExceeded) as error:
        raise NoPermission(f"{doing}: {error}") from error
    except HdfsError as error:
        raise Unavailable(f"{doing}: {error}", hint="Check that HDFS runs: 'yarnam doctor'.") from (
            error
        )
