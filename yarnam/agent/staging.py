"""Brings the task's inputs to the node: what its processes will read, before they start.

It begins when the container does, with what the task will read if nobody of the gang is replaced,
so that the data is there when the gang stands. What it is told then (``prepare``) is what counts.
The work is done in a thread; the limit of the whole is the ApplicationMaster's (STAGING).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yarnam.agent.settings import Settings
from yarnam.agent.task_job import TaskJob
from yarnam.errors import BadSpec, InternalError, Unavailable, YarnamError
from yarnam.train._manifest import Listed, read_manifest
from yarnam.train._shards import InputFile
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.protocol import LOCAL_INPUTS, LOCAL_INPUTS_FILE
from yarnam.wire.shares import likely_shares

if TYPE_CHECKING:
    # Loaded in the thread: tasks without such inputs do without.
    from hdfs_utils.node_cache import Place

_LOG = logging.getLogger("yarnam.agent")

CACHE = "yarnam-cache"
"""In the user's own directory of each of YARN's local disks: ``usercache/USER``."""
TELL_EVERY_S = 1.0
RETRY_FIRST_S, RETRY_CAP_S = 1.0, 10.0
"""Between two tries while HDFS does not answer."""
OWN = "yarnam-inputs-own"
"""Below the container's directory on each disk."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is wanted: of each input the numbers of its files."""

    files: tuple[tuple[str, tuple[int, ...]], ...]

    def covers(self, other: Plan) -> bool:
        """Whether everything that the other wants is wanted here too."""
        mine = {name: set(numbers) for name, numbers in self.files}
        return all(set(numbers) <= mine.get(name, set()) for name, numbers in other.files)


def plan_for(inputs: Iterable[Listed], shares: Iterable[int], total: int) -> Plan:
    """What the processes with these shares read; without any share, what is not divided."""
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
            wanted.update(one.dealing.share(0, share, total))
        files.append((one.name, tuple(sorted(wanted))))
    return Plan(tuple(files))


class InputStaging:
    """One container's. ``tell()`` is called on the loop when there is news of how far it is,
    ``fail(error)`` when what was begun early has come to nothing."""

    def __init__(
        self,
        settings: Settings,
        job: TaskJob,
        tell: Callable[[], None],
        fail: Callable[[YarnamError], None],
    ) -> None:
        self._settings = settings
        self._job = job
        self._tell = tell
        self._fail = fail
        self._inputs: dict[str, Listed] = {}
        self._bringer: _Bringer | None = None
        self._work: asyncio.Task[None] | None = None
        self._plan = Plan(())
        """What ``_work`` brings, or has brought."""
        self._is_done = False

    async def begin(self) -> None:
        """Raises Unavailable: the list of inputs cannot be read, or no disk be written."""
        path = self._settings.directory / LOCAL_INPUTS_FILE
        try:
            self._inputs = await asyncio.to_thread(read_manifest, path)
            self._bringer = await asyncio.to_thread(_Bringer, self._settings, self._job)
        except (OSError, ValueError) as error:
            raise Unavailable(f"inputs cannot be brought to this node: {error}") from error
        ask = self._settings.ask
        likely = likely_shares(self._job.readers, ask.role, ask.number, self._job.processes)
        inputs: Iterable[Listed] = self._inputs.values()
        if likely is None:
            mine, total = range(0), 0
            inputs = [one for one in inputs if not one.is_shared]
        else:
            mine, total = likely
        self._start(plan_for(inputs, mine, total), is_early=True)

    async def prepare(self, order: Any) -> None:
        """Bring what these processes read; ``order``: a ``pb.Launch``. Raises YarnamError."""
        plan = self._plan_of(order)
        if self._work is not None and not plan.covers(self._plan):
            await self._stop()  # for somebody else's share
        if self._work is not None:
            await self._finish()
        if not (self._is_done and self._plan == plan):
            self._start(plan)
            await self._finish()

    def report(self) -> Any:
        """A ``pb.StagingReport``; None: nothing is known yet."""
        if self._bringer is None:
            return None
        now = self._bringer.store.counts.standing()
        told = pb.StagingReport(
            files=now.files,
            files_done=now.files_done,
            size=now.size,
            done=max(0, now.done),
            cached=now.cached,
            trouble=now.trouble,
        )
        if now.left_s is not None:
            told.left_s = now.left_s
        return told

    async def run(self) -> None:
        """Tells now and then how far it is."""
        last = None
        while True:
            await asyncio.sleep(TELL_EVERY_S)
            told = self.report()
            if told != last:
                last = told
                self._tell()

    async def close(self) -> None:
        """YARN removes what is the container's own; the cache stays."""
        await self._stop()

    def _plan_of(self, order: Any) -> Plan:
        shares = [process.env.get("YARNAM_INPUT_SHARE", "") for process in order.processes]
        if any(shares):
            pairs = [share.partition("/") for share in shares]
            mine = [int(share) for share, _, _ in pairs]
            return plan_for(self._inputs.values(), mine, int(pairs[0][2]))
        is_server = order.role == "ps"
        inputs = [one for one in self._inputs.values() if not (is_server and one.is_shared)]
        return plan_for(inputs, (), 0)

    def _start(self, plan: Plan, *, is_early: bool = False) -> None:
        assert self._bringer is not None
        self._plan, self._is_done = plan, False
        wanted = [(self._inputs[name], numbers) for name, numbers in plan.files]
        work = asyncio.create_task(asyncio.to_thread(self._bringer.bring, wanted))
        work.add_done_callback(lambda done: self._note_end(done, is_early=is_early))
        self._work = work

    def _note_end(self, work: asyncio.Task[None], *, is_early: bool) -> None:
        if work is not self._work or work.cancelled():
            return
        error = work.exception()
        self._is_done = error is None
        if is_early and error is not None:
            self._fail(as_yarnam(error))
        self._tell()

    async def _finish(self) -> None:
        work = self._work
        assert work is not None
        try:
            # Shielded: a later order may want the same, and then waits for it.
            await asyncio.shield(work)
        except Exception as error:
            raise as_yarnam(error) from error
        finally:
            if work.done() and work is self._work:
                self._is_done = not work.cancelled() and work.exception() is None
                self._work = None

    async def _stop(self) -> None:
        work, self._work, self._is_done = self._work, None, False
        if work is None or self._bringer is None:
            return
        self._bringer.store.stop()
        # Between two pieces of data; one piece has the limit of its own.
        await asyncio.wait({work})
        if not work.cancelled():
            work.exception()  # it has been asked for


class _Bringer:
    """The part that blocks. One call at a time."""

    def __init__(self, settings: Settings, job: TaskJob) -> None:
        from hdfs_utils.node_cache import NodeStore

        self._root = settings.directory / LOCAL_INPUTS
        self._root.mkdir(exist_ok=True)
        self.store = NodeStore(
            places(settings, os.environ.get("LOCAL_DIRS", "")), cache_max_bytes=job.cache_max_bytes
        )
        self._shown: dict[Path, Path] = {}

    def bring(self, wanted: Sequence[tuple[Listed, Sequence[int]]]) -> None:
        """All of it, and nothing else; HDFS is asked again for as long as it does not answer."""
        from hdfs_utils.errors import HdfsError

        counts, store = self.store.counts, self.store
        store.go_on()
        targets = [_target(one, one.files[n]) for one, numbers in wanted for n in numbers]
        size = sum(one.files[n].length for one, numbers in wanted for n in numbers)
        store.keep_only(targets)
        pause_s = RETRY_FIRST_S
        while True:
            counts.begin(len(targets), size)
            try:
                self._bring(wanted)
            except HdfsError as error:
                if not error.retriable:
                    raise
                _LOG.warning("inputs do not come, again in %.0f s: %s", pause_s, error)
                counts.trouble(str(error))
                store.pause(pause_s)
                pause_s = min(RETRY_CAP_S, pause_s * 2)
            else:
                return

    def _bring(self, wanted: Sequence[tuple[Listed, Sequence[int]]]) -> None:
        from hdfs_utils import connect
        from hdfs_utils.node_cache import Wanted

        show: dict[Path, Path] = {}
        for one, numbers in wanted:
            files = [one.files[number] for number in numbers]
            asked = [
                Wanted(one.path_of(file), file.length, file.mtime_ms, _target(one, file))
                for file in files
            ]
            found = self.store.bring(connect(one.uri), asked, is_cached=one.mode == "cache")
            show |= {self._root / target: path for target, path in found.items()}
        for link in [link for link in self._shown if link not in show]:
            link.unlink(missing_ok=True)
        for link, path in show.items():
            if self._shown.get(link) != path:
                link.parent.mkdir(parents=True, exist_ok=True)
                link.unlink(missing_ok=True)
                link.symlink_to(path)
        self._shown = show


def _target(one: Listed, file: InputFile) -> str:
    return f"{one.name}/{file.path}"


def places(settings: Settings, local_dirs: str) -> list[Place]:
    """The node's disks as YARN gave them to the application (LOCAL_DIRS). YARN removes the
    container's directory from each of them when the container ends, however it ends."""
    from hdfs_utils.node_cache import Place

    found = []
    for name in local_dirs.split(","):
        directory = Path(name)
        if name and os.access(directory, os.W_OK):
            # LOCAL_DIR/usercache/USER/appcache/APPLICATION
            is_usual = directory.parent.name == "appcache"
            home = directory.parent.parent if is_usual else directory
            found.append(Place(directory / settings.container / OWN, home / CACHE))
    here = settings.directory
    return found or [Place(here / OWN, here / CACHE)]


def as_yarnam(error: BaseException) -> YarnamError:
    """Whose fault it is: the job's inputs, or this node's."""
    from hdfs_utils.errors import HdfsError, NotFound, PermissionDenied
    from hdfs_utils.node_cache import ChangedInput, NoRoom

    if isinstance(error, YarnamError):
        return error
    text = f"inputs cannot be brought to this node: {error}"
    if isinstance(error, ChangedInput | NotFound | PermissionDenied):
        return BadSpec(text, hint="Inputs must stay as they are while a job reads them.")
    if isinstance(error, NoRoom):
        return Unavailable(text, hint="Free the disk, or allow more data.cache_max_size.")
    if isinstance(error, HdfsError | OSError):
        return Unavailable(text)
    _LOG.error("a fault of the agent", exc_info=error)
    return InternalError(f"{text!r}")
