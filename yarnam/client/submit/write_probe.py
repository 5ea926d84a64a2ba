"""Whether the places that a job will write to take a file now: no permission, or no quota left."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256

from hdfs_utils import FileSystem, HdfsError
from hdfs_utils import uri as uris
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.client.site import Site, file_system_of
from yarnam.core.model.job_spec import JobSpec


def probe_targets(site: Site, job: JobSpec) -> None:
    """Write one byte beside the output and in the checkpoints' directory, and remove it.

    No other check is as strong: HDFS asks for room for a whole block with each replica before it
    takes the first byte, and the quota may be that of any directory above. (The NameNode's own
    answer, GETQUOTAUSAGE, counts the whole tree where a directory has no quota.)

    Raises NoPermission (also: no quota left), Unavailable.
    """
    for what, uri, is_own in (
        ("outputs", job.output, False),
        ("checkpoint", job.checkpoint.directory, True),
    ):
        if not uri or uri.startswith("file:"):
            continue
        files, path = file_system_of(site, uri)
        with hdfs_errors(f"{what}: cannot write to {uri}"):
            # The same name each time: what a killed client has left goes with its next submit.
            name = f".yarnam-probe-{sha256(f'{site.user} {uri}'.encode()).hexdigest()[:16]}"
            _probe(files, path if is_own else uris.parent(path), name)


def _probe(files: FileSystem, directory: str, name: str) -> None:
    while not files.exists(directory):
        directory = uris.parent(directory)
    path = uris.join(directory, name)
    try:
        writer = files.open_writer(path, overwrite=True)
        try:
            writer.write(b"?")
            writer.flush()
        finally:
            writer.abort()  # closing would wait for the DataNodes' reports
    except BaseException:
        with suppress(HdfsError):
            files.delete(path)
        raise
    files.delete(path)
