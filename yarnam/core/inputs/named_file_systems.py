"""The file systems that a job names: on a secure site it needs a token for each."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from yarnam.core.model.job_spec import JobSpec

_HDFS = frozenset({"hdfs", "viewfs", "webhdfs", "swebhdfs"})


def named_file_systems(job: JobSpec) -> tuple[str, ...]:
    """``scheme://authority`` of each HDFS that the job's spec names, in its order."""
    parts = (urlsplit(uri) for uri in _uris(job))
    found = (f"{p.scheme}://{p.netloc}" for p in parts if p.scheme in _HDFS and p.netloc)
    return tuple(dict.fromkeys(found))


def _uris(job: JobSpec) -> Iterator[str]:
    yield from (given.uri for given in job.inputs)
    yield from (file.source for file in job.files)
    yield from (job.output, job.checkpoint.directory, job.environment.archive)
