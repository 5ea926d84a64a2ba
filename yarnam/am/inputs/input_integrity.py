"""The job's inputs while it runs: what the blacklist says, what its own processes complain of.

::

    blacklist's watch ──► WatchedInputs ──► Standing: what to exclude ──► settle(epoch) ──► ranks
    complaints, last words ──► Rechecks ──► looks on nodes ──► claims ──► blacklist, WatchedInputs

HDFS may take its time, so nothing of it happens on the AM's loop, which only shows events (``see``)
and reads the status. What goes wrong here costs the job nothing but this care.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from hdfs_utils import HdfsError
from hdfs_utils.blacklist.quarantine import quarantine
from hdfs_utils.errors import NotADirectory, NotFound
from hdfs_utils.validation.check_in_subprocess import CheckOutcome
from yarnam.am.inputs.input_rechecks import CheckHere, Rechecks
from yarnam.am.inputs.watched_inputs import OpenData, WatchedInput, WatchedInputs, Worker
from yarnam.am.status_report import InputsStatus
from yarnam.core.inputs.epoch_lists import EpochBook, excluded_files_status
from yarnam.core.inputs.suspicions import Suspect
from yarnam.core.model.events import AgentRegistered, Event, TaskExited
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import JobSpec, OnCorrupt
from yarnam.core.model.outcomes import ExitKind
from yarnam.errors import BadSpec, QuotaFull, Unavailable, UsageError, WireMismatch
from yarnam.ports import Inbox, StateStore
from yarnam.ports.job_inputs import CheckOrder, InputEndpoint, SuspectReport
from yarnam.wire.codec import decode, encode
from yarnam.wire.protocol import EPOCHS_FILE
from yarnam.wire.records import EpochsRecord, InputEpochs

log = logging.getLogger("yarnam.inputs")

START_DELAY_S = 5.0
"""Seconds from the AM's start to the first read of the blacklist: nothing needs it before the gang
is complete."""
FIRST_ANSWER_LIMIT_S = 20.0
"""How long the first epoch waits for a blacklist that does not answer. It then goes by what was
known at submit."""
STORE_LIMIT_S = 30.0
"""How long writing an epoch's list may take: together with the limit above, less than the agents'
60 s."""

FAILING = frozenset({ExitKind.NON_ZERO, ExitKind.SIGNAL})


@dataclass(frozen=True, slots=True)
class DataAccess:
    """How the AM reaches the data and the tasks that read it. ``node``: the AM's own node."""

    open: OpenData
    endpoint: InputEndpoint
    check_here: CheckHere
    node: str


class InputIntegrity:
    """Implements ``ports.job_inputs.InputService``; see the module."""

    def __init__(
        self,
        job: JobSpec,
        application: str,
        access: DataAccess,
        store: StateStore,
        inbox: Inbox,
        now_s: Callable[[], float],
        *,
        start_delay_s: float = START_DELAY_S,
        first_answer_limit_s: float = FIRST_ANSWER_LIMIT_S,
        store_limit_s: float = STORE_LIMIT_S,
    ) -> None:
        self._job = job
        self._access = access
        self._store = store
        self._now_s = now_s
        self._start_delay_s = start_delay_s
        self._first_answer_limit_s = first_answer_limit_s
        self._store_limit_s = store_limit_s
        self._worker = Worker("inputs", self._idle)
        self._inputs = WatchedInputs(job, application, access.open, self._worker, inbox, now_s)
        self._rechecks = Rechecks(
            self._inputs, self._worker, access.endpoint, access.check_here, access.node, now_s
        )
        self._lock = threading.Lock()
        self._settling = threading.Lock()
        self._book = EpochBook()
        self._node_of: dict[AskId, str] = {}
        self._is_open = False
        self._unread = 0
        """Failed processes whose last lines are still to be looked at."""

    # ---- life ----------------------------------------------------------------------------

    def open(self, *, is_first_life: bool) -> None:
        """Begin to serve; returns immediately. A job without inputs has nothing to serve."""
        if not self._job.inputs:
            return
        self._is_open = True
        self._worker.start()
        self._rechecks.start()
        if is_first_life:
            self._serve()
        else:
            self._worker.put(self._serve_again)
        self._worker.put_in(self._start_delay_s, self._inputs.begin)

    def _serve_again(self) -> None:
        """Serves once the lists of the earlier AM attempt have been read."""
        try:
            stored = self._store.get(EPOCHS_FILE)
            book = book_of(decode(stored, EpochsRecord)) if stored is not None else None
        except (Unavailable, QuotaFull, WireMismatch) as error:
            log.warning("the epochs' lists cannot be read yet: %s", error)
            self._worker.put_in(1.0, self._serve_again)
            return
        if book is not None:
            with self._lock:
                self._book = book
        self._serve()

    def _idle(self) -> None:
        """Runs every second: a check may have exceeded its limit, or its node may be lost."""
        self._rechecks.conclude()

    def _serve(self) -> None:
        self._access.endpoint.serve(self)

    def close(self) -> None:
        """Takes at most 2 s for each file system. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._worker.close()
            self._rechecks.close()
            self._inputs.close()

    def finish(self, limit_s: float) -> tuple[str, ...]:
        """At the job's end: wait until no suspicion is open, at most this long; then move what is
        proved corrupt into quarantine, where that is the policy. Not before: until now the job's
        own processes may have read the files. What was done, in words. Blocks."""
        if not self._is_open:
            return ()
        self._rechecks.without_agents()
        done = threading.Event()

        def check() -> None:
            if not self._rechecks.open_count:
                done.set()

        for _ in range(int(limit_s / 0.1)):
            self._worker.put(check)
            if done.wait(0.1):
                break
        return tuple(line for watched in self._inputs.all() for line in self._put_away(watched))

    def _put_away(self, watched: WatchedInput) -> list[str]:
        lines: list[str] = []
        if watched.given.on_corrupt is not OnCorrupt.QUARANTINE:
            return lines
        for bad in watched.exclusions.proved:
            try:
                status = watched.files.stat(bad.path)
                moved = quarantine(
                    watched.files, status, reason=bad.reason, by=self._job.user, at_s=self._now_s()
                )
                lines.append(f"{bad.path} moved to {moved.now}")
            except (NotFound, NotADirectory):
                continue
            except HdfsError as error:
                lines.append(f"{bad.path} not moved to quarantine: {error}")
            log.info("%s", lines[-1])
        return lines

    # ---- what the loop shows and reads ---------------------------------------------------

    def see(self, events: Iterable[Event]) -> None:
        """Notes the agents' nodes, and failed processes: their last lines may name an input."""
        if not self._is_open:
            return
        for event in events:
            if isinstance(event, AgentRegistered):
                self._node_of[event.ask] = str(event.node)
            elif isinstance(event, TaskExited):
                node = self._node_of.get(event.ask, "")
                for process in event.exits:
                    if process.kind in FAILING and process.last_lines:
                        said = process.last_lines
                        self._count_unread(1)
                        self._worker.put(partial(self._read_last_words, node, said))

    def _read_last_words(self, node: str, lines: Sequence[str]) -> None:
        try:
            self._rechecks.read_last_words(node, lines)
        finally:
            self._count_unread(-1)

    def _count_unread(self, more: int) -> None:
        with self._lock:
            self._unread += more

    def status(self) -> InputsStatus:
        """The files that are excluded, and those that are suspected."""
        standings = {watched.given.name: watched.exclusions for watched in self._inputs.all()}
        with self._lock:
            book = self._book
        excluded_files = excluded_files_status(self._job.inputs, standings, book)
        return InputsStatus(excluded_files, self._rechecks.status())

    @property
    def open_checks(self) -> int:
        """Suspected files that are not ruled yet, and last words that are not read yet."""
        return self._rechecks.open_count + self._unread

    def excluded_now(self) -> Mapping[str, Sequence[str]]:
        return {
            watched.given.name: watched.exclusions.excluded_files for watched in self._inputs.all()
        }

    # ---- what agents ask -----------------------------------------------------------------

    def settle(self, name: str, epoch: int) -> tuple[str, ...]:
        if all(given.name != name for given in self._job.inputs):
            raise UsageError(f"the job has no data input {name!r}")
        settled = self._settled(name, epoch)
        if settled is not None:
            return settled
        self._worker.put(self._inputs.begin)
        deadline_s = self._now_s() + self._first_answer_limit_s
        while (watched := self._inputs.get(name)) is None or not watched.is_looked_at.is_set():
            if self._now_s() >= deadline_s or self._worker.is_closed.wait(0.02):
                log.warning("epoch %d of %s goes by what was known at submit", epoch, name)
                break
        # One at a time: what is written down is what is reported.
        with self._settling:
            settled = self._settled(name, epoch)
            return self._settle(name, epoch) if settled is None else settled

    def _settled(self, name: str, epoch: int) -> tuple[str, ...] | None:
        with self._lock:
            return self._book.of(name, epoch)

    def _settle(self, name: str, epoch: int) -> tuple[str, ...]:
        exclusions = self._inputs.exclusions(name)
        if exclusions.refusal:
            raise BadSpec(exclusions.refusal)
        book = self._book.copy()
        book.fix(name, epoch, exclusions.excluded_files)
        self._write(encode(record_of(book)))
        with self._lock:
            self._book = book
        log.info("epoch %d of %s excludes %d files", epoch, name, len(exclusions.excluded_files))
        return book.of(name, epoch) or ()

    def _write(self, value: bytes) -> None:
        deadline_s = self._now_s() + self._store_limit_s
        while True:
            try:
                self._store.put(EPOCHS_FILE, value)
            except (Unavailable, QuotaFull) as error:
                if self._now_s() >= deadline_s or self._worker.is_closed.wait(1.0):
                    raise
                log.warning("an epoch's list is not written yet: %s", error)
            else:
                return

    def complain(self, node: str, complaints: Sequence[SuspectReport]) -> None:
        for report in complaints:
            suspect = Suspect(
                report.path, report.reason, node, report.times, report.first, report.last
            )
            self._worker.put(partial(self._rechecks.suspect, suspect))

    def next_check(self, node: str) -> CheckOrder | None:
        return self._rechecks.next_check(node)

    def checked(self, number: int, outcome: CheckOutcome) -> None:
        self._rechecks.checked(number, outcome)


def record_of(book: EpochBook) -> EpochsRecord:
    """The record for a later AM attempt. Lists seldom differ from epoch to epoch, so each is stored
    once."""
    inputs = []
    for name, epochs in sorted(book.given_out.items()):
        lists = list(dict.fromkeys(epochs.values()))
        numbers = {files: number for number, files in enumerate(lists)}
        pairs = tuple((epoch, numbers[epochs[epoch]]) for epoch in sorted(epochs))
        inputs.append(InputEpochs(name, tuple(lists), pairs))
    return EpochsRecord(tuple(inputs))


def book_of(record: EpochsRecord) -> EpochBook:
    """Inverse of ``record_of``."""
    given_out = {
        of_input.input: {epoch: of_input.lists[number] for epoch, number in of_input.epochs}
        for of_input in record.inputs
    }
    return EpochBook(given_out)
