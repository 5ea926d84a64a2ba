"""``ports.outputs.OutputStore`` on HDFS: see ``hdfs_utils.outputs`` for how it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import hdfs_utils
from hdfs_utils import FileSystem, HdfsError, TimeLimits
from hdfs_utils import errors as hdfs
from hdfs_utils.outputs import Committed, Outputs, Progress, Stopped
from yarnam.adapters.hdfs_store import as_yarnam
from yarnam.errors import BadSpec, Unavailable, YarnamError
from yarnam.model.ids import TaskId
from yarnam.model.job import JobSpec
from yarnam.ports.outputs import StoredOutputs, StoringProgress
from yarnam.wire.output_places import partial_place, staging_of

LIMITS = TimeLimits(metadata_s=8.0, data_s=8.0, close_s=8.0, lease_s=25.0)
"""As of the AM's other calls; a lease waits for a DataNode's heartbeat (3 s)."""


class HdfsOutputs:
    """Of one job, in one life of its AM. For one thread at a time. ``fs``: where the output lies,
    if that is known already."""

    def __init__(
        self, job: JobSpec, application: str, am_attempt: int, fs: FileSystem | None = None
    ) -> None:
        self._job = job
        self._application = application
        self._life = am_attempt
        self._fs = fs
        self._outputs: Outputs | None = None

    def prepare(self, attempt: int, tasks: Sequence[TaskId]) -> None:
        drop = not self._job.storing.keep_on_failure
        try:
            self._open().prepare(attempt, map(str, tasks), drop_older=drop)
        except HdfsError as error:
            raise self._told(error) from error

    def store(
        self,
        attempt: int,
        tasks: Sequence[TaskId],
        tell: Callable[[StoringProgress], None],
        is_stopped: Callable[[], bool],
    ) -> StoredOutputs | None:
        def progress(one: Progress) -> None:
            tell(StoringProgress(one.files, one.size_bytes, one.moved))

        try:
            done = self._open().commit(
                attempt,
                [str(task) for task in tasks],
                life=self._life,
                replace=self._job.storing.replace,
                tell=progress,
                is_stopped=is_stopped,
            )
        except Stopped:
            return None
        except HdfsError as error:
            raise self._told(error) from error
        return _stored(done)

    def look(self) -> StoredOutputs | None:
        try:
            done = self._open().back_out()
        except HdfsError as error:
            raise self._told(error) from error
        return None if done is None else _stored(done)

    def give_up(self, *, is_kept: bool) -> None:
        try:
            outputs = self._open()
            if is_kept:
                outputs.keep(
                    outputs.fs.own_path(partial_place(self._job.output, self._application))
                )
            else:
                outputs.discard()
        except HdfsError as error:
            raise self._told(error) from error

    def _open(self) -> Outputs:
        """Not before it is needed: the output may lie on another cluster, which is away."""
        if self._outputs is None:
            fs = self._fs or hdfs_utils.connect(self._job.output, limits=LIMITS)
            self._outputs = Outputs(
                fs,
                fs.own_path(self._job.output),
                fs.own_path(staging_of(self._job.output, self._application)),
                self._application,
            )
        return self._outputs

    def _told(self, error: HdfsError) -> YarnamError:
        what = f"output {self._job.output}"
        if isinstance(error, hdfs.AlreadyExists):
            return BadSpec(
                f"{what}: {error}",
                hint="It came to be while the job ran. Name an output for each job, or say"
                " `replace: true`.",
            )
        if isinstance(error, (hdfs.SafeMode, hdfs.LeaseConflict)):
            return Unavailable(f"{what}: {error}")
        return as_yarnam(error, what)


def _stored(done: Committed) -> StoredOutputs:
    return StoredOutputs(done.files, done.size_bytes, done.renamed)
