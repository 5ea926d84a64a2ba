"""The input blacklist on HDFS, with a notifier where there is one and a look now and then
anyway.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from hdfs_utils.blacklist import Added, BlacklistView, Entry, FileBlacklist, KnownEntries
from hdfs_utils.blacklist.locations import ancestors, location_in, open_directory
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.errors import Unavailable, YarnamError
from yarnam.ports.input_blacklist import BlacklistNotifier, Subscription

log = logging.getLogger("yarnam.blacklist")

POLL_S = 30.0
"""Between two polls of a running job without a notifier: a few questions to the NameNode each."""

POLL_WITH_NOTIFIER_S = 300.0
"""With one: for what was written by somebody whose notifier did not notify."""

MAX_NAMED = 10
"""Problems of one poll that are logged."""

STOP_LIMIT_S = 2.0
"""For a watch's thread to end; one that hangs in a call to HDFS is left to that call's limit."""


class SharedBlacklist:
    """See :class:`yarnam.ports.input_blacklist.InputBlacklist`."""

    def __init__(
        self,
        files: FileBlacklist,
        notifier: BlacklistNotifier | None = None,
        poll_s: float | None = None,
    ) -> None:
        self._files = files
        self._notifier = notifier
        self._poll_s = poll_s or (POLL_WITH_NOTIFIER_S if notifier else POLL_S)
        self._watches: list[_Watch] = []

    def lookup(self, paths: Iterable[str], below: Iterable[str] = ()) -> BlacklistView:
        with hdfs_errors("reading the input blacklist"):
            return self._files.read(paths, below)

    def add(self, entries: Iterable[Entry], at: str | None = None) -> tuple[Added, ...]:
        with hdfs_errors("adding to the input blacklist"):
            added = self._files.add(entries, at)
        if self._notifier is not None and added:
            try:
                self._notifier.notify(sorted({one.location for one in added}))
            except Unavailable as error:
                # The entries are safe; running jobs come by within their poll.
                log.warning("could not notify running jobs of the new entries: %s", error.message)
        return added

    def watch(self, paths: Iterable[str], changed: Callable[[BlacklistView], None]) -> Subscription:
        watch = _Watch(self, tuple(paths), changed, self._poll_s)
        watch.start(self._notifier)
        self._watches.append(watch)
        return watch

    def close(self) -> None:
        for watch in self._watches:
            watch.stop()
        self._watches.clear()
        if self._notifier is not None:
            self._notifier.close()


class _Watch:
    def __init__(
        self,
        blacklist: SharedBlacklist,
        paths: tuple[str, ...],
        changed: Callable[[BlacklistView], None],
        poll_s: float,
    ) -> None:
        self._blacklist = blacklist
        self._paths = paths
        self._changed = changed
        self._poll_s = poll_s
        self._wake = threading.Event()
        self._is_stopped = False
        self._known: KnownEntries | None = None
        self._problems: tuple[str, ...] = ()
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="blacklist-watch", daemon=True)
        self._subscription: Subscription | None = None

    def start(self, notifier: BlacklistNotifier | None) -> None:
        if notifier is not None:
            self._subscription = notifier.subscribe(places_of(self._paths), self._wake.set)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopped = True
        self._wake.set()
        if self._subscription is not None:
            self._subscription.stop()
        if self._thread is not threading.current_thread():
            self._thread.join(STOP_LIMIT_S)

    def _run(self) -> None:
        while not self._is_stopped:
            try:
                self._poll()
            except YarnamError as error:
                self._complain(error.message)
            except Exception as error:
                # Nobody would notice that this thread has gone, nor learn of corrupt files.
                log.debug("a fault while the input blacklist was read", exc_info=True)
                self._complain(f"reading the input blacklist: {error!r:.300}")
            self._wake.wait(self._poll_s)
            self._wake.clear()

    def _poll(self) -> None:
        view = self._blacklist.lookup(self._paths)
        if view.problems != self._problems:
            for problem in view.problems[:MAX_NAMED]:
                log.warning("of the input blacklist was not read: %s", problem)
        self._problems = view.problems
        if view.known != self._known and not self._is_stopped:
            self._changed(view)
            self._known = view.known
        self._trouble = ""

    def _complain(self, trouble: str) -> None:
        if trouble != self._trouble:
            log.warning("%s; trying again every %g s", trouble, self._poll_s)
        self._trouble = trouble


def places_of(paths: Iterable[str]) -> tuple[str, ...]:
    """All places that may speak about these paths."""
    found: dict[str, None] = {open_directory(): None}
    for path in paths:
        found.update(dict.fromkeys(location_in(above) for above in (*ancestors(path), path)))
    return tuple(found)
