"""``ports.output_store.OutputStore`` on HDFS: see ``hdfs_utils.outputs.committer`` for how it is
done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import hdfs_utils
from hdfs_utils import FileSystem, HdfsError, TimeLimits
from hdfs_utils import errors as hdfs
from hdfs_utils.outputs import committer
from yarnam.adapters.hdfs.error_map import as_yarnam
from yarnam.core.model.ids import TaskId
from yarnam.core.model.job_spec import JobSpec
from yarnam.errors import BadSpec, YarnamError
from yarnam.ports.output_store import StoredOutputs, StoringProgress
from yarnam.wire.output_paths import partial_output_path, staging_path

LIMITS = TimeLimits(metadata_s=8.0, data_s=8.0, close_s=8.0, lease_s=25.0)
"""As of the AM's other calls; a lease waits for a DataNode's heartbeat (3 s)."""


class HdfsOutputStore:
    """One job's outputs, in one attempt of its AM. For one thread at a time. ``fs``: the output's
    file system, if it is already known."""

    def __init__(
        self, job: JobSpec, application: str, am_attempt: int, fs: FileSystem | None = None
    ) -> None:
        self._job = job
        self._application = application
        self._am_attempt = am_attempt
        self._fs = fs
        self._outputs: committer.OutputCommitter | None = None

    def prepare(self, attempt: int, tasks: Sequence[TaskId]) -> None:
        drop = not self._job.storing.keep_on_failure
        try:
            self._open().prepare(attempt, map(str, tasks), drop_older=drop)
        except HdfsError as error:
            raise self._as_yarnam(error) from error

    def store(
        self,
        attempt: int,
        tasks: Sequence[TaskId],
        tell: Callable[[StoringProgress], None],
        is_stopped: Callable[[], bool],
    ) -> StoredOutputs | None:
        def progress(one: committer.CommitProgress) -> None:
            tell(StoringProgress(one.files, one.size_bytes, one.moved))

        try:
            done = self._open().commit(
                attempt,
                [str(task) for task in tasks],
                fencing_epoch=self._am_attempt,
                replace=self._job.storing.replace,
                report=progress,
                is_stopped=is_stopped,
            )
        except committer.CommitStopped:
            return None
        except HdfsError as error:
            raise self._as_yarnam(error) from error
        return _stored(done)

    def find_stored(self) -> StoredOutputs | None:
        try:
            done = self._open().back_out()
        except HdfsError as error:
            raise self._as_yarnam(error) from error
        return None if done is None else _stored(done)

    def give_up(self, *, is_kept: bool) -> None:
        try:
            outputs = self._open()
            if is_kept:
                outputs.keep(
                    outputs.fs.own_path(partial_output_path(self._job.output, self._application))
                )
            else:
                outputs.discard()
        except HdfsError as error:
            raise self._as_yarnam(error) from error

    def _open(self) -> committer.OutputCommitter:
        """Not before it is needed: the output may lie on another cluster, which is away."""
        if self._outputs is None:
            fs = self._fs or hdfs_utils.connect(self._job.output, limits=LIMITS)
            self._outputs = committer.OutputCommitter(
                fs,
                fs.own_path(self._job.output),
                fs.own_path(staging_path(self._job.output, self._application)),
                self._application,
            )
        return self._outputs

    def _as_yarnam(self, error: HdfsError) -> YarnamError:
        what = f"output {self._job.output}"
        if isinstance(error, hdfs.AlreadyExists):
            return BadSpec(
                f"{what}: {error}",
                hint="Another process created it while the job ran. Name an output for each job, "
                "or set `replace: true`.",
            )
        return as_yarnam(error, what)


def _stored(done: committer.CommittedOutputs) -> StoredOutputs:
    return StoredOutputs(done.files, done.size_bytes, done.renamed)
