"""Puts on HDFS what the containers of one job need, and takes it away again when submit fails."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal

from hdfs_utils import FileSystem, HdfsError, Writer
from yarnam._version import __version__
from yarnam.adapters.hadoop_site import zookeeper_credentials
from yarnam.client.checks import CheckedJob
from yarnam.client.hdfs_errors import hdfs_errors
from yarnam.client.line import is_anybody_waiting
from yarnam.client.packing import pack_folder, sha256_of
from yarnam.client.quick_files import put_once
from yarnam.client.runtime import build_runtime, runtime_source
from yarnam.client.site import Site
from yarnam.errors import BadSpec
from yarnam.model.job import EnvironmentSpec, JobSpec, RoleSpec, ShippedFile
from yarnam.model.placement import EarlyAsk, LocalityLevel
from yarnam.placement.early import early_asks
from yarnam.wire.codec import encode
from yarnam.wire.credentials import new_credentials
from yarnam.wire.manifest import encode_manifest
from yarnam.wire.protocol import (
    CREDENTIALS_FILE,
    INPUTS_FILE,
    JOB_FILE,
    LOCAL_CREDENTIALS_FILE,
    LOCAL_ENVIRONMENT,
    LOCAL_HADOOP_CONF,
    LOCAL_INPUTS_FILE,
    LOCAL_JOB_FILE,
    LOCAL_RUNTIME,
    LOCAL_SECRETS_FILE,
    LOCAL_ZOOKEEPER_FILE,
    ZOOKEEPER_FILE,
)
from yarnam.wire.records import JobRecord

if TYPE_CHECKING:
    # Brings Skein and grpc along: loaded while the driver starts.
    from skein_specs import LocalizedFile

PARALLEL_UPLOADS = 8
"""A small file on HDFS is mostly waiting, whatever its size: wait for all of them at once."""

_CHUNK = 4 << 20
"""The native client is fastest with pieces of 1 to 8 MiB."""

HADOOP_CONF_FILE = "hconf.zip"
_ARCHIVE_SUFFIXES = (".tar.gz", ".tgz", ".tar", ".zip")

Say = Callable[[str], None]


@dataclass
class Staged:
    """A job that lies ready on HDFS."""

    record: JobRecord
    am_files: dict[str, LocalizedFile] = field(default_factory=dict)
    task_files: dict[str, LocalizedFile] = field(default_factory=dict)


class Staging:
    """One job's stay on HDFS until YARN has it. A context: leaving it by an error removes it."""

    def __init__(self, site: Site, key: str, say: Say = lambda _: None) -> None:
        self._site = site
        self._files: FileSystem = site.files
        self._say = say
        self.key = key
        self.job_dir = site.places.job(key)
        # On this machine, mode 700, for as long as the submit takes.
        self._scratch = Path(tempfile.mkdtemp(prefix="yarnam-submit-"))

    def stage(self, checked: CheckedJob, submitted_at_s: float) -> Staged:
        """Upload everything. Raises YarnamError; the caller then calls ``undo``."""
        job = checked.job
        public, secrets = without_secrets(job)
        with hdfs_errors("making the job's directory"):
            self._files.mkdirs(self.job_dir, 0o700)
        with ThreadPoolExecutor(PARALLEL_UPLOADS, thread_name_prefix="stage") as pool:
            runtime = pool.submit(self._runtime)
            conf = pool.submit(self._hadoop_conf, checked)
            credentials = pool.submit(self._put_bytes, CREDENTIALS_FILE, new_credentials())
            environment = pool.submit(self._environment, job)
            keys = pool.submit(self._zookeeper_credentials)
            early = pool.submit(self._early, checked)
            inputs = pool.submit(self._inputs, checked)
            shipped = [pool.submit(self._ship, file) for file in job.files]
            try:
                record = JobRecord(
                    job=replace(
                        public,
                        files=tuple(future.result()[0] for future in shipped),
                        environment=environment.result()[0],
                    ),
                    targets=checked.targets,
                    job_dir=self.job_dir,
                    submitted_at_s=submitted_at_s,
                    yarnam_version=__version__,
                    rm_url=self._site.rm.url,
                    zookeeper=self._site.zookeeper,
                    gpu_models=self._site.gpu_rules(),
                    data=checked.data,
                    early=early.result(),
                )
                job_file = pool.submit(self._put_bytes, JOB_FILE, encode(record))
                staged = Staged(record)
                staged.am_files = _common(job_file, credentials, runtime, conf)
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        staged.task_files = dict(staged.am_files)
        if (key := keys.result()) is not None:
            staged.am_files[LOCAL_ZOOKEEPER_FILE] = key
        for future in shipped:
            file, localized = future.result()
            staged.task_files[file.name] = localized
        if (archive := environment.result()[1]) is not None:
            staged.task_files[LOCAL_ENVIRONMENT] = archive
        if (listed := inputs.result()) is not None:
            staged.task_files[LOCAL_INPUTS_FILE] = listed
        if secrets:
            staged.task_files[LOCAL_SECRETS_FILE] = self._secrets(secrets)
        return staged

    def close(self) -> None:
        """Remove what lies on this machine. Idempotent."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def undo(self) -> None:
        """Remove the job's directory from HDFS. Raises nothing: it runs while an error flies."""
        self.close()
        try:
            self._files.delete(self.job_dir, recursive=True)
        except HdfsError:
            pass

    # ---- the parts ---------------------------------------------------------------------------

    def _runtime(self) -> LocalizedFile:
        source = runtime_source()
        target = f"{self._site.places.runtimes}/{source.file_name}"
        with hdfs_errors(f"looking for {target}"):
            is_there = self._files.exists(target)
        if not is_there:
            archive = build_runtime(source, self._site.cache)
            self._upload_once(archive, target, "the runtime of AM and agents")
        return self._localized(target, "archive", "PRIVATE")

    def _hadoop_conf(self, checked: CheckedJob) -> LocalizedFile:
        from skein_specs import hadoop_conf, host_addresses

        named = {
            str(node)
            for target in checked.targets
            if target.level is LocalityLevel.NODE
            for node in target.nodes
        }
        files = hadoop_conf(
            self._site.conf_dir, checked.snapshot.nodes, addresses=host_addresses(named)
        )
        return self._put_bytes(HADOOP_CONF_FILE, zip_of(files), kind="archive")

    def _early(self, checked: CheckedJob) -> tuple[EarlyAsk, ...]:
        """Asked for while the AM starts, unless somebody else could miss it."""
        asks = early_asks(
            checked.snapshot, checked.job, checked.targets, data=checked.data, seed=self.key
        )
        return () if asks and is_anybody_waiting(self._site) else asks

    def _environment(self, job: JobSpec) -> tuple[EnvironmentSpec, LocalizedFile | None]:
        spec = job.environment
        if not spec.archive:
            return spec, None
        if "://" in spec.archive:
            return spec, self._localized(spec.archive, "archive", "PRIVATE")
        local = Path(spec.archive)
        name = f"{sha256_of(local)[:20]}{_archive_suffix(local.name)}"
        target = f"{self._site.places.environments}/{name}"
        with hdfs_errors(f"looking for {target}"):
            is_there = self._files.exists(target)
        if not is_there:
            self._upload_once(local, target, "the environment")
        return replace(spec, archive=target), self._localized(target, "archive", "PRIVATE")

    def _ship(self, file: ShippedFile) -> tuple[ShippedFile, LocalizedFile]:
        if "://" in file.source:
            kind: Literal["file", "archive"] = "archive" if file.is_archive else "file"
            return file, self._localized(file.source, kind, "APPLICATION")
        local, is_archive = Path(file.source), file.is_archive
        suffix = _archive_suffix(local.name) if is_archive else local.suffix
        if local.is_dir():
            packed = self._scratch / f"{file.name}.tar.gz"
            pack_folder(local, packed)
            local, is_archive, suffix = packed, True, ".tar.gz"
        digest = sha256_of(local)
        target = f"{self.job_dir}/files/{digest[:16]}{suffix}"
        self._upload(local, target, f"'{file.name}'")
        shipped = replace(file, source=target, is_archive=is_archive, sha256=digest)
        return shipped, self._localized(target, "archive" if is_archive else "file", "APPLICATION")

    def _inputs(self, checked: CheckedJob) -> LocalizedFile | None:
        """The inputs' files as they are now: all processes and all attempts go by this list."""
        listed = [one for outcome in checked.inputs if (one := outcome.listed) is not None]
        if not listed:
            return None
        return self._put_bytes(INPUTS_FILE, encode_manifest(listed))

    def _secrets(self, values: Mapping[str, str]) -> LocalizedFile:
        """A local file: Skein uploads it into its own private directory and removes it there when
        the application ends, so that no later reader of the job's directory finds it."""
        from skein_specs import LocalizedFile

        path = self._scratch / LOCAL_SECRETS_FILE
        path.touch(mode=0o600)
        path.write_text(json.dumps(dict(values)), encoding="utf-8")
        return LocalizedFile(str(path))

    def _zookeeper_credentials(self) -> LocalizedFile | None:
        """For the AM alone: no task deals with ZooKeeper. In the job's directory, as its own
        credentials are: a later AM attempt needs them too."""
        if not self._site.zookeeper:
            return None
        credentials = zookeeper_credentials(self._site.environ)
        if not credentials:
            return None
        return self._put_bytes(ZOOKEEPER_FILE, credentials.encode())

    # ---- writing -----------------------------------------------------------------------------

    def _put_bytes(
        self, name: str, content: bytes, *, kind: Literal["file", "archive"] = "file"
    ) -> LocalizedFile:
        target = f"{self.job_dir}/{name}"
        with hdfs_errors(f"writing {target}"):
            self._site.quick.put(target, content)
        return self._localized(target, kind, "APPLICATION")

    def _upload(self, local: Path, target: str, what: str) -> None:
        size = local.stat().st_size
        if size >= _CHUNK:
            self._say(f"Uploading {what} ({size / 1e6:.0f} MB)")
        with hdfs_errors(f"uploading {local} to {target}"):
            self._files.write_atomic(target, lambda writer: _copy(local, writer))

    def _upload_once(self, local: Path, target: str, what: str) -> None:
        self._say(f"Uploading {what} ({local.stat().st_size / 1e6:.0f} MB), once")
        with hdfs_errors(f"uploading {local} to {target}"):
            put_once(self._files, target, lambda writer: _copy(local, writer))

    def _localized(
        self,
        target: str,
        kind: Literal["file", "archive"],
        visibility: Literal["APPLICATION", "PRIVATE"],
    ) -> LocalizedFile:
        """With size and time, so that Skein need not ask the NameNode once per service."""
        from skein_specs import LocalizedFile

        with hdfs_errors(f"looking at {target}"):
            status = self._files.stat(target)
        return LocalizedFile(
            target, kind, visibility, size_bytes=status.length, modified_ms=status.mtime_ms
        )


def without_secrets(job: JobSpec) -> tuple[JobSpec, dict[str, str]]:
    """The job with the values of ``secret_env`` emptied, and those values by name."""
    hidden = set(job.secret_env)
    found: dict[str, str] = {}
    pairs = [*job.env, *(pair for role in job.roles for pair in role.env)]
    for name, value in pairs:
        if name not in hidden:
            continue
        if found.setdefault(name, value) != value:
            raise BadSpec(
                f"the secret variable {name} has two values",
                hint="A secret has one value for all roles; use two names.",
            )

    def emptied(env: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple((name, "" if name in hidden else value) for name, value in env)

    roles: tuple[RoleSpec, ...] = tuple(replace(role, env=emptied(role.env)) for role in job.roles)
    return replace(job, env=emptied(job.env), roles=roles), found


def zip_of(files: Mapping[str, bytes]) -> bytes:
    """A zip archive with these files and fixed times."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, date_time=(2000, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _common(
    job_file: Future[LocalizedFile],
    credentials: Future[LocalizedFile],
    runtime: Future[LocalizedFile],
    conf: Future[LocalizedFile],
) -> dict[str, LocalizedFile]:
    return {
        LOCAL_JOB_FILE: job_file.result(),
        LOCAL_CREDENTIALS_FILE: credentials.result(),
        LOCAL_RUNTIME: runtime.result(),
        LOCAL_HADOOP_CONF: conf.result(),
    }


def _archive_suffix(name: str) -> str:
    lowered = name.lower()
    for suffix in _ARCHIVE_SUFFIXES:
        if lowered.endswith(suffix):
            return suffix
    return "".join(PurePosixPath(name).suffixes[-1:])


def _copy(local: Path, writer: Writer) -> None:
    with local.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            writer.write(chunk)
