"""The job's inputs with what the blacklist says of them now, and what follows from the job's
policy."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from hdfs_utils import HdfsError
from hdfs_utils import uri as uris
from hdfs_utils.blacklist import (
    Blacklist,
    CorruptPolicy,
    Entry,
    Key,
    KnownEntries,
    OnCorrupt,
    State,
    decide,
    gather_entries,
    merge_blacklists,
)
from hdfs_utils.blacklist.entries import new_claim
from hdfs_utils.errors import NotADirectory, NotFound
from hdfs_utils.filesystem import FileStatus, FileSystem
from yarnam.core.inputs.epoch_lists import (
    Exclusions,
    ProvedFile,
    at_submit,
    is_meant,
    relative,
)
from yarnam.core.model.events import InputsRefused
from yarnam.core.model.job_spec import DataInput, JobSpec
from yarnam.errors import YarnamError
from yarnam.ports import Inbox
from yarnam.ports.input_blacklist import InputBlacklist

log = logging.getLogger("yarnam.inputs")

RETRY_S = 10.0
MAX_LISTED = 10_000
"""Entries of the blacklist that are compared with the present files; each takes a millisecond."""

OpenData = Callable[[str], tuple[FileSystem, InputBlacklist]]
"""The file system of a URI, and its blacklist. Called once for each input; may block."""


class Worker:
    """Runs jobs one after the other, in a thread of its own. ``idle`` runs in every second without
    a job. An error in one job does not stop the next."""

    def __init__(self, name: str, idle: Callable[[], None], idle_s: float = 1.0) -> None:
        self._idle = idle
        self._idle_s = idle_s
        self._work: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.is_closed = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def put(self, work: Callable[[], None]) -> None:
        """Run this soon. Thread-safe; returns immediately."""
        self._work.put(work)

    def put_in(self, delay_s: float, work: Callable[[], None]) -> None:
        """Run this after this many seconds."""
        timer = threading.Timer(delay_s, self._work.put, [work])
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """Takes at most 1 s: a call that hangs in HDFS is left to its own limit."""
        self.is_closed.set()
        self._work.put(None)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self.is_closed.is_set():
            try:
                work = self._work.get(timeout=self._idle_s)
            except queue.Empty:
                work = self._idle
            if work is None:
                return
            try:
                work()
            except Exception:  # The job continues without it: nothing of it hangs on this.
                log.exception("a fault in the care of inputs")


@dataclass(slots=True)
class WatchedInput:
    """One input of the job, with what is known of it. ``root``: its plain path."""

    given: DataInput
    files: FileSystem
    blacklist: InputBlacklist
    root: str
    exclusions: Exclusions
    known: KnownEntries = field(default_factory=KnownEntries)
    is_looked_at: threading.Event = field(default_factory=threading.Event)

    def holds(self, path: str) -> bool:
        """Whether a path without scheme belongs to this input."""
        if path != self.root and not path.startswith(f"{self.root.rstrip('/')}/"):
            return False
        return is_meant(self.given, relative(self.root, path))


class WatchedInputs:
    """All inputs of the job. Blocking calls are made by the worker and the watches' own threads."""

    def __init__(
        self,
        job: JobSpec,
        application: str,
        open_data: OpenData,
        worker: Worker,
        inbox: Inbox,
        now_s: Callable[[], float],
    ) -> None:
        self._job = job
        self._application = application
        self._open_data = open_data
        self._worker = worker
        self._inbox = inbox
        self._now_s = now_s
        self._lock = threading.RLock()
        self._inputs: dict[str, WatchedInput] = {}
        self._own = Blacklist()
        self._reported_refusal = ""
        self._is_waiting = False

    def begin(self) -> None:
        """Opens the data and watches its blacklist. Retries while that fails; inputs that could be
        opened are served meanwhile. Call it in the worker."""
        for given in self._job.inputs:
            if given.name in self._inputs or self._worker.is_closed.is_set():
                continue
            try:
                self._watch(given)
            except (YarnamError, HdfsError) as error:
                log.warning("input %s is not watched yet: %s", given.name, error)
                if not self._is_waiting:
                    self._is_waiting = True
                    self._worker.put_in(RETRY_S, self._begin_again)

    def _begin_again(self) -> None:
        self._is_waiting = False
        self.begin()

    def _watch(self, given: DataInput) -> None:
        files, blacklist = self._open_data(given.uri)
        root = files.own_path(given.uri)
        watched = WatchedInput(given, files, blacklist, root, at_submit(given))

        def learn(known: KnownEntries) -> None:
            watched.known = known
            self._consider(watched)

        with self._lock:
            self._inputs[given.name] = watched
        blacklist.watch([root], lambda looked: self._worker.put(lambda: learn(looked.known)))

    def close(self) -> None:
        """Takes at most 2 s for each file system."""
        for blacklist in {
            id(watched.blacklist): watched.blacklist for watched in self.all()
        }.values():
            blacklist.close()

    # ---- reading -------------------------------------------------------------------------

    def all(self) -> list[WatchedInput]:
        """The inputs that could be opened so far."""
        with self._lock:
            return list(self._inputs.values())

    def get(self, name: str) -> WatchedInput | None:
        """The input; ``None`` means it could not be opened so far."""
        with self._lock:
            return self._inputs.get(name)

    def exclusions(self, name: str) -> Exclusions:
        """The exclusions as known now; as decided at submit where nothing was learnt since."""
        watched = self.get(name)
        if watched is not None:
            return watched.exclusions
        return at_submit(next(given for given in self._job.inputs if given.name == name))

    def find(self, path: str) -> WatchedInput | None:
        """The input that a path or URI lies in."""
        for watched in self.all():
            try:
                plain = watched.files.own_path(path)
            except HdfsError:
                continue
            if watched.holds(plain):
                return watched
        return None

    # ---- learning ------------------------------------------------------------------------

    def claim(
        self, watched: WatchedInput, key: Key, state: State, reason: str, evidence: str
    ) -> None:
        """Adds a claim about a file: this job obeys it immediately, other jobs when it is on
        HDFS."""
        claim = new_claim(
            state, self._job.user, reason, evidence, job=self._application, now_s=self._now_s()
        )
        entry = Entry(key, frozenset([claim]))
        with self._lock:
            # The job's own findings count for it, even where it may not write beside the data.
            self._own = merge_blacklists(self._own, gather_entries([entry]))
        self._consider(watched)
        try:
            watched.blacklist.add([entry])
        except YarnamError as error:
            log.warning(
                "could not report to other jobs that %s is %s: %s", key.path, state.value, error
            )

    def _consider(self, watched: WatchedInput) -> None:
        """Applies what is known now to the present files."""
        with self._lock:
            known = KnownEntries(
                merge_blacklists(watched.known.trusted, self._own), watched.known.open
            )
        present = self._present(watched, known)
        exclusions = judge(watched.given, watched.root, present, known, self._now_s())
        with self._lock:
            before, watched.exclusions = watched.exclusions, exclusions
        watched.is_looked_at.set()
        if exclusions != before:
            log.info(
                "input %s: %d files to exclude from the next epoch on%s",
                watched.given.name,
                len(exclusions.excluded_files),
                f"; {exclusions.refusal}" if exclusions.refusal else "",
            )
        if exclusions.refusal and exclusions.refusal != self._reported_refusal:
            self._reported_refusal = exclusions.refusal
            self._inbox(InputsRefused(self._now_s(), exclusions.refusal))

    def _present(self, watched: WatchedInput, known: KnownEntries) -> list[FileStatus]:
        paths = {entry.path for entry in known.trusted.entries.values()}
        paths |= {uris.join(watched.root, name) for name in watched.given.skipped}
        statuses = []
        for path in sorted(filter(watched.holds, paths))[:MAX_LISTED]:
            with suppress(NotFound, NotADirectory):
                statuses.append(watched.files.stat(path))
        return statuses


def judge(
    given: DataInput, root: str, files: Iterable[FileStatus], known: KnownEntries, now_s: float
) -> Exclusions:
    """The policy applied to what is known now.

    Suspicions alone never end a job that runs: where they would exclude more than the job
    allows, only what is proved is excluded, and the rest is still read.

    Args:
        root: plain path of the input.
        files: those of the input that something is known about, as they are now.
    """
    listed = tuple(files)
    policy = CorruptPolicy(OnCorrupt(given.on_corrupt.value), given.max_skipped)
    totals = (max(given.files, len(listed)), given.length) if given.files else None
    decision = decide(listed, known, policy, now_s, totals)
    proved = tuple(
        ProvedFile(s.path, s.reason) for s in decision.excluded if s.state is State.PROVED
    )
    suspected = len(decision.excluded) - len(proved)
    if decision.refusal and suspected:
        sure = {s.path for s in proved}
        decision = decide([f for f in listed if f.path in sure], known, policy, now_s, totals)
    else:
        suspected = 0
    if decision.refusal:
        refusal = f"input '{given.name}': {decision.refusal}"
        return Exclusions((), decision.share, suspected, refusal, proved)
    names = sorted(relative(root, s.path) for s in decision.excluded)
    share = decision.share if names else 0.0
    return Exclusions(tuple(names), share, suspected, "", proved)
