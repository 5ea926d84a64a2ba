"""Stages the task's inputs on the node: what its processes will read, before they start.

It begins when the container does, with what the task will read if no task of the gang is replaced,
so that the data is there when the gang is complete. ``prepare`` then names what is really wanted.
The work is done in a thread; the ApplicationMaster limits its time (STAGING).
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from yarnam._light_imports import on_first_use
from yarnam.agent.machine.agent_directives import Launch
from yarnam.agent.task_config import ContainerSettings, TaskJob
from yarnam.errors import BadSpec, InternalError, Unavailable, YarnamError
from yarnam.errors.full_disks import in_words
from yarnam.train._inputs.file_shares import InputFile
from yarnam.train._inputs.input_listing import InputListing, read_input_manifest
from yarnam.wire.input_shares import likely_shares
from yarnam.wire.protocol import ENV_SDK, LOCAL_INPUTS, LOCAL_INPUTS_FILE

with on_first_use():
    import hdfs_utils
    from hdfs_utils import errors, node_cache
    from hdfs_utils.concurrency import retry

if TYPE_CHECKING:
    from hdfs_utils.node_cache import FetchSnapshot

_LOG = logging.getLogger("yarnam.agent")

CACHE_DIRECTORY = "yarnam-cache"
"""In the user's own directory of each of YARN's local disks: ``usercache/USER``."""
REPORT_EVERY_S = 1.0
RETRY_FIRST_S, RETRY_CAP_S = 1.0, 10.0
"""The pauses while HDFS does not answer, in seconds."""
OWN_DIRECTORY = "yarnam-inputs-own"
"""Below the container's directory on each disk."""


@dataclass(frozen=True, slots=True)
class StagingPlan:
    """The numbers of the wanted files of each input."""

    files: tuple[tuple[str, tuple[int, ...]], ...]

    def covers(self, other: StagingPlan) -> bool:
        """Whether everything that the other wants is wanted here too."""
        mine = {name: set(numbers) for name, numbers in self.files}
        return all(set(numbers) <= mine.get(name, set()) for name, numbers in other.files)


def staging_plan(inputs: Iterable[InputListing], shares: Iterable[int], total: int) -> StagingPlan:
    """The files that processes with these shares read; without any share, all undivided ones."""
    mine = tuple(shares)
    files = []
    for one in inputs:
        if not one.is_staged:
            continue
        if not one.is_shared or total == 0:
            files.append((one.name, tuple(range(len(one.files)))))
            continue
        wanted: set[int] = set()
        for share in mine:
            wanted.update(one.partitioner.share(0, share, total))
        files.append((one.name, tuple(sorted(wanted))))
    return StagingPlan(tuple(files))


class InputStaging:
    """Stages the inputs of one container.

    Args:
        report_progress: called on the loop when there is progress to report.
        fail: called with the error when what was begun early cannot be staged.
        retry_first_s: the first pause while HDFS does not answer; later ones grow to 10 s.
    """

    def __init__(
        self,
        settings: ContainerSettings,
        job: TaskJob,
        report_progress: Callable[[], None],
        fail: Callable[[YarnamError], None],
        *,
        retry_first_s: float = RETRY_FIRST_S,
    ) -> None:
        self._settings = settings
        self._job = job
        self._report_progress = report_progress
        self._retry_first_s = retry_first_s
        self._fail = fail
        self._inputs: dict[str, InputListing] = {}
        self._fetcher: _InputFetcher | None = None
        self._work: asyncio.Task[None] | None = None
        self._plan = StagingPlan(())
        """What ``_work`` stages, or has staged."""
        self._is_done = False

    async def begin(self) -> None:
        """Raises Unavailable: the list of inputs cannot be read, or no disk be written."""
        path = self._settings.directory / LOCAL_INPUTS_FILE
        try:
            self._inputs = await asyncio.to_thread(read_input_manifest, path)
            self._fetcher = await asyncio.to_thread(
                _InputFetcher, self._settings, self._job, self._retry_first_s
            )
        except (OSError, ValueError) as error:
            raise Unavailable(f"inputs cannot be staged on this node: {error}") from error
        ask = self._settings.ask
        likely = likely_shares(self._job.readers, ask.role, ask.number, self._job.processes)
        inputs: Iterable[InputListing] = self._inputs.values()
        if likely is None:
            mine, total = range(0), 0
            inputs = [one for one in inputs if not one.is_shared]
        else:
            mine, total = likely
        self._start(staging_plan(inputs, mine, total), is_early=True)

    async def prepare(self, order: Launch) -> None:
        """Stage what these processes read. Raises YarnamError."""
        plan = self._plan_of(order)
        if self._work is not None and not plan.covers(self._plan):
            await self._stop()  # for somebody else's share
        if self._work is not None:
            await self._finish()
        if not (self._is_done and self._plan == plan):
            self._start(plan)
            await self._finish()

    def report(self) -> FetchSnapshot | None:
        """How far it is; ``None``: nothing is known yet."""
        return None if self._fetcher is None else self._fetcher.store.progress.snapshot()

    async def run(self) -> None:
        """Report progress, for ever."""
        last = None
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            report = self.report()
            if report != last:
                last = report
                self._report_progress()

    async def close(self) -> None:
        """YARN removes what is the container's own; the cache stays."""
        await self._stop()

    def _plan_of(self, order: Launch) -> StagingPlan:
        sdk = [json.loads(process.env.get(ENV_SDK, "{}")) for process in order.processes]
        shares = [given["input_share"] for given in sdk if given.get("input_share")]
        if shares:
            return staging_plan(self._inputs.values(), [mine for mine, _ in shares], shares[0][1])
        is_server = order.role == "ps"
        inputs = [one for one in self._inputs.values() if not (is_server and one.is_shared)]
        return staging_plan(inputs, (), 0)

    def _start(self, plan: StagingPlan, *, is_early: bool = False) -> None:
        assert self._fetcher is not None
        self._plan, self._is_done = plan, False
        wanted = [(self._inputs[name], numbers) for name, numbers in plan.files]
        work = asyncio.create_task(asyncio.to_thread(self._fetcher.fetch, wanted))
        work.add_done_callback(lambda done: self._note_end(done, is_early=is_early))
        self._work = work

    def _note_end(self, work: asyncio.Task[None], *, is_early: bool) -> None:
        if work is not self._work or work.cancelled():
            return
        error = work.exception()
        self._is_done = error is None
        if is_early and error is not None:
            self._fail(staging_error(error, self._places))
        self._report_progress()

    async def _finish(self) -> None:
        work = self._work
        assert work is not None
        try:
            # Shielded: a later order may want the same, and then waits for it.
            await asyncio.shield(work)
        except Exception as error:
            raise staging_error(error, self._places) from error
        finally:
            if work.done() and work is self._work:
                self._is_done = not work.cancelled() and work.exception() is None
                self._work = None

    @property
    def _places(self) -> list[Path]:
        local_dirs = os.environ.get("LOCAL_DIRS", "")
        return [disk.own for disk in cache_places(self._settings, local_dirs)]

    async def _stop(self) -> None:
        work, self._work, self._is_done = self._work, None, False
        if work is None or self._fetcher is None:
            return
        self._fetcher.store.stop()
        # Between two pieces of data; one piece has the limit of its own.
        await asyncio.wait({work})
        if not work.cancelled():
            work.exception()  # retrieved, or asyncio would log it


class _InputFetcher:
    """The part that blocks. One call at a time."""

    def __init__(self, settings: ContainerSettings, job: TaskJob, retry_first_s: float) -> None:
        self._backoff = retry.Backoff(retry_first_s, RETRY_CAP_S)
        self._root = settings.directory / LOCAL_INPUTS
        self._root.mkdir(exist_ok=True)
        self.store = node_cache.NodeStore(
            cache_places(settings, os.environ.get("LOCAL_DIRS", "")),
            cache_max_bytes=job.cache_max_bytes,
        )
        self._shown: dict[Path, Path] = {}

    def fetch(self, wanted: Sequence[tuple[InputListing, Sequence[int]]]) -> None:
        """All of it, and nothing else; tries again for as long as HDFS does not answer."""
        progress, store = self.store.progress, self.store
        store.resume()
        targets = [_target(one, one.files[n]) for one, numbers in wanted for n in numbers]
        size = sum(one.files[n].length for one, numbers in wanted for n in numbers)
        store.keep_only(targets)

        def fetch_once() -> None:
            progress.begin(len(targets), size)
            self._fetch(wanted)

        def note_failure(error: Exception, _spent_s: float) -> None:
            _LOG.warning("cannot stage the inputs yet: %s", error)
            progress.set_trouble(str(error))

        retry.retry(
            fetch_once, math.inf, on_failure=note_failure, backoff=self._backoff, sleep=store.pause
        )

    def _fetch(self, wanted: Sequence[tuple[InputListing, Sequence[int]]]) -> None:
        show: dict[Path, Path] = {}
        for one, numbers in wanted:
            files = [one.files[number] for number in numbers]
            asked = [
                node_cache.WantedFile(
                    one.path_of(file), file.length, file.mtime_ms, _target(one, file)
                )
                for file in files
            ]
            found = self.store.fetch(
                hdfs_utils.connect(one.uri), asked, is_cached=one.mode == "cache"
            )
            show |= {self._root / target: path for target, path in found.items()}
        for link in [link for link in self._shown if link not in show]:
            link.unlink(missing_ok=True)
        for link, path in show.items():
            if self._shown.get(link) != path:
                link.parent.mkdir(parents=True, exist_ok=True)
                link.unlink(missing_ok=True)
                link.symlink_to(path)
        self._shown = show


def _target(one: InputListing, file: InputFile) -> str:
    return f"{one.name}/{file.path}"


def cache_places(settings: ContainerSettings, local_dirs: str) -> list[node_cache.CacheDisk]:
    """The node's disks as YARN gave them to the application (LOCAL_DIRS). YARN removes the
    container's directory from each of them when the container ends, however it ends."""
    found = []
    for name in local_dirs.split(","):
        directory = Path(name)
        if name and os.access(directory, os.W_OK):
            # LOCAL_DIR/usercache/USER/appcache/APPLICATION
            is_usual = directory.parent.name == "appcache"
            home = directory.parent.parent if is_usual else directory
            found.append(
                node_cache.CacheDisk(
                    directory / settings.container / OWN_DIRECTORY, home / CACHE_DIRECTORY
                )
            )
    here = settings.directory
    return found or [node_cache.CacheDisk(here / OWN_DIRECTORY, here / CACHE_DIRECTORY)]


def staging_error(error: BaseException, places: Sequence[Path] = ()) -> YarnamError:
    """Whose fault it is: the job's inputs, or this node's, which writes to ``places``."""
    if isinstance(error, YarnamError):
        return error
    text = f"inputs cannot be staged on this node: {in_words(error, *places)}"
    if isinstance(error, node_cache.ChangedInput | errors.NotFound | errors.PermissionDenied):
        return BadSpec(text, hint="Inputs must stay as they are while a job reads them.")
    if isinstance(error, node_cache.NoSpace):
        return Unavailable(text, hint="Free the disk, or allow more data.cache_max_size.")
    if isinstance(error, errors.HdfsError | OSError):
        return Unavailable(text)
    _LOG.error("a fault of the agent", exc_info=error)
    return InternalError(f"{text!r}")
