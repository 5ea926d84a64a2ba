"""List the files of an input, and check that a job can read them as its spec requires."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase

from hdfs_utils import FileSystem, HdfsError
from hdfs_utils import uri as uris
from hdfs_utils.errors import NotFound, PermissionDenied
from hdfs_utils.filesystem import FileStatus, format_bytes
from hdfs_utils.validation import data_files
from yarnam.core.model.job_spec import DataInput, InputMode, JobSpec, Sharding
from yarnam.wire.input_shares import NO_SHARE_ROLES

MAX_ACCESS_CHECKS = 32
"""Files that HDFS is asked about, whether they may be read: one of each owner, group, permission
and directory."""
PARALLEL_ACCESS_CHECKS = 8


def input_files(files: FileSystem, root: str, pattern: str = "") -> Iterator[FileStatus]:
    """The data files of an input, by name. Raises NotFound."""
    if not pattern:
        yield from data_files(files, root)
        return
    first, _, rest = pattern.partition("/")
    for status in files.list(root):
        name = uris.name(status.path)
        if name.startswith(("_", ".")) or not fnmatchcase(name, first):
            continue
        if not rest:
            yield from data_files(files, status.path)
        elif status.is_dir:
            try:
                yield from input_files(files, status.path, rest)
            except NotFound:
                continue  # gone in the meantime


def why_unusable(
    files: FileSystem, job: JobSpec, given: DataInput, kept: Sequence[FileStatus], *, is_all: bool
) -> str:
    """The settings of the spec that these files do not allow; empty if there are none. ``is_all``:
    the input has no more files than were listed."""
    where = f"{given.uri}/{given.pattern}" if given.pattern else given.uri
    if not kept and (given.pattern or given.is_staged or given.shard is Sharding.FILES):
        return f"no file matches {where}" if given.pattern else f"no data in {where}"
    if not is_all and (given.is_staged or given.shard is Sharding.FILES):
        return (
            f"more than {len(kept)} files, too many for mode {given.mode.value} with shard "
            f"{given.shard.value}; pack them with 'yarnam data shard'"
        )
    without = NO_SHARE_ROLES | job.auxiliary_roles
    shares = sum(r.tasks * r.processes_per_task for r in job.roles if r.name not in without)
    if given.shard is Sharding.FILES and len(kept) < shares:
        count = "1 file" if len(kept) == 1 else f"{len(kept)} files"
        return (
            f"{count} for {shares} processes: with shard: files, some would have nothing to read; "
            "split the data into more files, or use shard: none"
        )
    most = job.staging.cache_max_mib << 20
    size = sum(status.length for status in kept)
    if given.mode is InputMode.CACHE and given.shard is Sharding.NONE and 0 < most < size:
        return f"its {format_bytes(size)} do not go into data.cache_max_size, {format_bytes(most)}"
    return _why_unreadable(files, kept)


def _why_unreadable(files: FileSystem, kept: Iterable[FileStatus]) -> str:
    """HDFS is asked itself, for only it knows of ACLs and of groups."""
    kinds: dict[tuple[str, str, int, str], str] = {}
    for status in kept:
        kind = (status.owner, status.group, status.permission, uris.parent(status.path))
        kinds.setdefault(kind, status.path)
        if len(kinds) == MAX_ACCESS_CHECKS:
            break

    def ask(path: str) -> str:
        try:
            # The NameNode reveals where blocks lie only to users who may read them.
            files.block_locations(path)
        except PermissionDenied:
            return path
        except HdfsError:
            return ""  # what else is wrong with it is others' to say
        return ""

    with ThreadPoolExecutor(PARALLEL_ACCESS_CHECKS, thread_name_prefix="ask") as pool:
        refused = [path for path in pool.map(ask, kinds.values()) if path]
    return f"no read access to {', '.join(refused[:3])}" if refused else ""
