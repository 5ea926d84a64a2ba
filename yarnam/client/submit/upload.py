"""Puts on HDFS what the containers of one job need, and takes it away again when submit fails."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal

from hdfs_utils import FileSystem, HdfsError
from hdfs_utils.errors import MalformedData
from yarnam._light_imports import on_first_use
from yarnam._version import __version__
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.adapters.hdfs.small_files import put_once
from yarnam.adapters.yarn.addresses import zookeeper_credentials
from yarnam.client.environments.interpreter_archive import build_interpreter, own_interpreter
from yarnam.client.environments.runtime_archive import build_runtime, runtime_source
from yarnam.client.site import NODE_PYTHON_VARIABLE, Site
from yarnam.client.submit.archives import pack_folder, sha256_of
from yarnam.client.submit.hdfs_store import DIGEST_LENGTH, HdfsStore, ReportProgress
from yarnam.client.submit.leftovers.abandoned import SCRATCH_PREFIX, clear_abandoned
from yarnam.client.submit.preflight import CheckedJob
from yarnam.client.submit.waiting_jobs import must_wait
from yarnam.client.user_paths import UserPaths
from yarnam.core.model.job_spec import (
    BUNDLED_PYTHON,
    EnvironmentSpec,
    JobSpec,
    RoleSpec,
    ShippedFile,
)
from yarnam.core.model.plans import LocalityLevel, PrelaunchedService
from yarnam.core.placement.prelaunch import prelaunch_asks
from yarnam.errors import BadConfig, BadSpec
from yarnam.spec.shipping.shipped_folder import shipped_folder
from yarnam.wire import protocol
from yarnam.wire.codec import encode
from yarnam.wire.credentials import new_credentials
from yarnam.wire.input_manifest import encode_manifest
from yarnam.wire.records import JobRecord, NotifyUrls

if TYPE_CHECKING:
    # Brings Skein and grpc along: loaded while the driver starts.
    from skein_specs import LocalizedFile

with on_first_use():
    import skein_specs
    from hdfs_utils.protocols import gssapi, keytab
    from yarnam.client.submit import pre_run_choice

PARALLEL_UPLOADS = 8
"""Uploading a small file to HDFS is mostly waiting, whatever its size, so several run in
parallel."""

KEYTAB_VARIABLE = "YARNAM_KEYTAB"
"""The variable that names a keytab to ship with jobs, by which their AM gets them new delegation
tokens."""

_ARCHIVE_SUFFIXES = (".tar.gz", ".tgz", ".tar", ".zip")


@dataclass
class UploadedJob:
    """A job that lies ready on HDFS."""

    record: JobRecord
    am_files: dict[str, LocalizedFile] = field(default_factory=dict)
    task_files: dict[str, LocalizedFile] = field(default_factory=dict)


class JobUpload:
    """One job's stay on HDFS until YARN has it."""

    def __init__(self, site: Site, key: str, report: ReportProgress = lambda _: None) -> None:
        self._site = site
        self._files: FileSystem = site.files
        self._report = report
        self.key = key
        self.job_dir = site.paths.job(key)
        self._store = HdfsStore(site, report)
        # On this machine, mode 700, for as long as the submit takes.
        self._scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))

    def stage(self, checked: CheckedJob, submitted_at_s: float) -> UploadedJob:
        """Upload everything. Raises YarnamError; the caller then calls ``undo``."""
        job = checked.job
        public, secrets = without_secrets(job)
        with hdfs_errors("making the job's directory"):
            self._files.mkdirs(self.job_dir, 0o700)
        self._store.must_be_own(self.job_dir)
        with ThreadPoolExecutor(PARALLEL_UPLOADS, thread_name_prefix="stage") as pool:
            runtime = pool.submit(self._runtime)
            interpreter = pool.submit(self._interpreter, job.environment)
            conf = pool.submit(self._hadoop_conf, checked)
            credentials = pool.submit(self._put_bytes, protocol.CREDENTIALS_FILE, new_credentials())
            environment = pool.submit(self._environment, job)
            layers = [
                pool.submit(self._store.localized, layer, "archive", "PRIVATE")
                for layer in job.environment.layers
            ]
            pool.submit(clear_abandoned, self._site)
            keys = pool.submit(self._zookeeper_credentials)
            notify = pool.submit(self._notify_urls, job)
            keytab_file = pool.submit(self._keytab)
            interceptor = pool.submit(self._interceptor)
            prelaunched = pool.submit(self._prelaunch, checked)
            inputs = pool.submit(self._inputs, checked)
            shipped = [pool.submit(self._ship, *numbered) for numbered in enumerate(job.files)]
            try:
                settled = replace(
                    public,
                    files=tuple(future.result()[0] for future in shipped),
                    environment=environment.result()[0],
                )
                settled = self._with_pre_run(
                    settled, [future.result() for future in shipped], environment.result()
                )
                # The gang's containers must not be asked for while its pre-run is due.
                early = prelaunched.result()
                if settled.pre_run.is_due:
                    early = ()
                shared = (
                    runtime.result(),
                    interpreter.result(),
                    environment.result()[1],
                    *map(Future.result, layers),
                )
                stored = tuple(file.source for file in shared if file is not None)
                record = self._record(checked, settled, submitted_at_s, early, stored)
                job_file = pool.submit(self._put_bytes, protocol.JOB_FILE, encode(record))
                staged = UploadedJob(record)
                staged.am_files = {
                    protocol.LOCAL_JOB_FILE: job_file.result(),
                    protocol.LOCAL_CREDENTIALS_FILE: credentials.result(),
                    protocol.LOCAL_RUNTIME: runtime.result(),
                    protocol.LOCAL_HADOOP_CONF: conf.result(),
                }
                if (python := interpreter.result()) is not None:
                    staged.am_files[protocol.LOCAL_PYTHON] = python
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        optional = {
            protocol.LOCAL_ENVIRONMENT: environment.result()[1],
            protocol.LOCAL_INPUTS_FILE: inputs.result(),
            protocol.LOCAL_SECRETS_FILE: self._secrets(secrets) if secrets else None,
        }
        staged.task_files = {
            **staged.am_files,
            **{file.name: localized for file, localized in map(Future.result, shipped)},
            **{name: file for name, file in optional.items() if file is not None},
            **{
                f"{protocol.LAYER_PREFIX}{number}": layer.result()
                for number, layer in enumerate(layers)
            },
        }
        am_only = {
            protocol.LOCAL_ZOOKEEPER_FILE: keys.result(),
            protocol.LOCAL_NOTIFY_FILE: notify.result(),
            protocol.LOCAL_KEYTAB_FILE: keytab_file.result(),
            protocol.LOCAL_INTERCEPTOR_FILE: interceptor.result(),
        }
        staged.am_files.update({name: file for name, file in am_only.items() if file is not None})
        return staged

    def _record(
        self,
        checked: CheckedJob,
        job: JobSpec,
        submitted_at_s: float,
        prelaunched: tuple[PrelaunchedService, ...],
        stored: tuple[str, ...],
    ) -> JobRecord:
        return JobRecord(
            job=job,
            targets=(
                *checked.targets,
                *checked.larger,
                *(checked.pre_run if job.pre_run.is_due else ()),
            ),
            job_dir=self.job_dir,
            submitted_at_s=submitted_at_s,
            yarnam_version=__version__,
            rm_url=self._site.rm.url,
            zookeeper=self._site.zookeeper,
            gpu_models=self._site.gpu_rules(),
            data=checked.data,
            prelaunched=prelaunched,
            stored=stored,
        )

    def close(self) -> None:
        """Remove what lies on this machine. Idempotent."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def undo(self) -> None:
        """Remove the job's directory from HDFS. Raises nothing: it runs while an error flies."""
        self.close()
        with suppress(HdfsError):
            self._files.delete(self.job_dir, recursive=True)

    # ---- the parts ---------------------------------------------------------------------------

    def _runtime(self) -> LocalizedFile:
        source = runtime_source()
        target = self._store.store_once(
            lambda: build_runtime(source, self._site.cache),
            self._site.paths.runtimes,
            source.file_name,
            "the runtime of AM and agents",
        )
        return self._store.localized(target, "archive", "PRIVATE")

    def _interpreter(self, environment: EnvironmentSpec) -> LocalizedFile | None:
        """The Python of AM and agents; ``None`` if one of the nodes' own is to be found there."""
        is_wanted = environment.python == BUNDLED_PYTHON
        if os.environ.get(NODE_PYTHON_VARIABLE) and not is_wanted:
            return None
        interpreter = own_interpreter()
        what = "the interpreter of AM and agents"
        try:
            target = self._store.store_once(
                lambda: build_interpreter(interpreter, self._site.cache),
                self._site.paths.runtimes,
                interpreter.file_name,
                what,
            )
        except BadConfig as error:
            if is_wanted:
                raise
            self._report(f"AM and agents use a Python of the nodes: {error.message}. {error.hint}")
            return None
        return self._store.localized(target, "archive", "PRIVATE")

    def _hadoop_conf(self, checked: CheckedJob) -> LocalizedFile:
        named = {
            str(node)
            for target in (*checked.targets, *checked.larger, *checked.pre_run)
            if target.level is LocalityLevel.NODE
            for node in target.nodes
        }
        files = skein_specs.hadoop_conf(
            self._site.conf_dir, checked.snapshot.nodes, addresses=skein_specs.host_addresses(named)
        )
        return self._put_bytes(protocol.HADOOP_CONF_FILE, zip_of(files), kind="archive")

    def _interceptor(self) -> LocalizedFile | None:
        """The jar in front of the AM's heartbeats, unless the site has a class of its own there."""
        jar = skein_specs.interceptor_jar()
        site = skein_specs.read_site_conf(self._site.conf_dir)
        if jar is None or skein_specs.why_not_intercepted(site["yarn-site.xml"]):
            return None
        target = f"{self._site.paths.runtimes}/yarnam-{hashlib.sha256(jar).hexdigest()[:20]}.jar"
        with hdfs_errors(f"writing {target}"):
            if not self._files.exists(target):
                put_once(self._files, target, lambda writer: writer.write(jar))
        return self._store.localized(target, "file", "PRIVATE")

    def _prelaunch(self, checked: CheckedJob) -> tuple[PrelaunchedService, ...]:
        """The containers to request while the AM starts, by node names; none if a waiting job could
        miss them."""
        if not checked.snapshot.has_node_names:
            return ()
        asks = prelaunch_asks(
            checked.snapshot, checked.job, checked.targets, data=checked.data, seed=self.key
        )
        return asks if asks and not must_wait(self._site) else ()

    def _put_bytes(
        self, name: str, content: bytes, *, kind: Literal["file", "archive"] = "file"
    ) -> LocalizedFile:
        return self._store.put_bytes(f"{self.job_dir}/{name}", content, kind)

    def _environment(self, job: JobSpec) -> tuple[EnvironmentSpec, LocalizedFile | None]:
        spec = job.environment
        target = environment_target(self._site.paths, spec)
        if not target.archive:
            return target, None
        if "://" not in spec.archive:
            self._store.upload_once(Path(spec.archive), target.archive, "the environment")
        return target, self._store.localized(target.archive, "archive", "PRIVATE")

    def _ship(self, number: int, file: ShippedFile) -> tuple[ShippedFile, LocalizedFile]:
        kind: Literal["file", "archive"]
        if "://" in file.source:
            kind = "archive" if file.is_archive else "file"
            self._store.must_be_own(file.source, is_code=False)
            return file, self._store.localized(file.source, kind, "APPLICATION")
        local, is_archive = Path(file.source), file.is_archive
        suffix = _archive_suffix(local.name) if is_archive else local.suffix
        if local.is_dir():
            packed = self._scratch / f"{file.name}.tar.gz"
            shipped = shipped_folder(local, uses_git=file.uses_git_ignore)
            for line in (shipped.summary(file.name), *shipped.notices(file.name)):
                self._report(line)
            pack_folder(shipped, packed)
            local, is_archive, suffix = packed, True, ".tar.gz"
        digest = sha256_of(local)
        # Two files may have the same content. YARN gives up on a file whose time has changed, as it
        # does when it is written a second time.
        target = f"{self.job_dir}/{protocol.SHIPPED_DIRECTORY}/{number}-{digest[:16]}{suffix}"
        self._store.upload(local, target, f"'{file.name}'")
        stored = replace(file, source=target, is_archive=is_archive, sha256=digest)
        return stored, self._store.localized(
            target, "archive" if is_archive else "file", "APPLICATION"
        )

    def _with_pre_run(
        self,
        job: JobSpec,
        files: Sequence[tuple[ShippedFile, LocalizedFile]],
        environment: tuple[EnvironmentSpec, LocalizedFile | None],
    ) -> JobSpec:
        content = [
            pre_run_choice.ShippedContent(file.name, file.sha256)
            if file.sha256
            else pre_run_choice.ShippedContent(
                file.name, "", localized.size_bytes, localized.modified_ms
            )
            for file, localized in files
        ]
        spec, archive = environment
        if archive is not None:
            # Under the name of its content, or where the user has it.
            facts = (archive.size_bytes, 0 if self._is_own(spec.archive) else archive.modified_ms)
            content.append(pre_run_choice.ShippedContent("environment", spec.archive, *facts))
        return pre_run_choice.with_pre_run(self._site, job, content, self._report)

    def _is_own(self, archive: str) -> bool:
        return archive.startswith(f"{self._site.paths.environments}/")

    def _inputs(self, checked: CheckedJob) -> LocalizedFile | None:
        """The inputs' files as they are now: all processes and all attempts go by this list."""
        listed = [one for outcome in checked.inputs if (one := outcome.listed) is not None]
        if not listed:
            return None
        return self._put_bytes(protocol.INPUTS_FILE, encode_manifest(listed))

    def _secrets(self, values: Mapping[str, str]) -> skein_specs.LocalizedFile:
        """A local file: Skein uploads it into its own private directory and removes it there when
        the application ends, so that no later reader of the job's directory finds it."""
        path = self._scratch / protocol.LOCAL_SECRETS_FILE
        path.touch(mode=0o600)
        path.write_text(json.dumps(dict(values)), encoding="utf-8")
        return skein_specs.LocalizedFile(str(path))

    def _zookeeper_credentials(self) -> LocalizedFile | None:
        """Credentials for ZooKeeper, for the AM alone: no task uses ZooKeeper. They lie in the
        job's directory, as the job's own do, since a later AM attempt needs them too."""
        credentials = self._site.zookeeper and zookeeper_credentials(self._site.environ)
        if credentials == protocol.ZOOKEEPER_KERBEROS and not self._site.environ.get(
            KEYTAB_VARIABLE
        ):
            raise BadConfig(
                "the job cannot use ZooKeeper by Kerberos: its ApplicationMaster has no ticket",
                hint=f"Let a keytab go along ({KEYTAB_VARIABLE}: yarnam docs kerberos), or "
                "set YARNAM_ZOOKEEPER=none: the job then waits without a place in the order.",
            )
        if not credentials:
            return None
        return self._put_bytes(protocol.ZOOKEEPER_FILE, credentials.encode())

    def _notify_urls(self, job: JobSpec) -> LocalizedFile | None:
        """The file is for the AM alone, as the credentials for ZooKeeper."""
        if not job.notify:
            return None
        content = NotifyUrls(tuple(channel.url for channel in job.notify))
        return self._put_bytes(protocol.NOTIFY_FILE, encode(content))

    def _keytab(self) -> LocalizedFile | None:
        """The file is for the AM alone, as the credentials for ZooKeeper. ``None`` if none is
        shipped."""
        name = self._site.environ.get(KEYTAB_VARIABLE, "")
        if name and self._site.open_token_source is not None:
            self._site.must_reach(f"the KDC, by which {KEYTAB_VARIABLE} is checked,")
        if not name or not self._site.who.is_kerberos:
            return None
        stored = self._put_bytes(protocol.KEYTAB_FILE, checked_keytab(Path(name)))
        with hdfs_errors("protecting the keytab on HDFS"):
            self._files.chmod(f"{self.job_dir}/{protocol.KEYTAB_FILE}", 0o600)
        return stored


def environment_target(paths: UserPaths, spec: EnvironmentSpec) -> EnvironmentSpec:
    """The environment as containers get it. An archive of this machine has its place on HDFS under
    the name of its content."""
    if spec.python == BUNDLED_PYTHON:
        return replace(spec, python=f"{protocol.LOCAL_PYTHON}/bin/python3", archive="")
    if not spec.archive or "://" in spec.archive:
        return spec
    local = Path(spec.archive)
    name = f"{sha256_of(local)[:DIGEST_LENGTH]}{_archive_suffix(local.name)}"
    return replace(spec, archive=f"{paths.environments}/{name}")


def checked_keytab(path: Path) -> bytes:
    """The keytab's content, if Kerberos accepts it for the user of the ticket. Raises BadConfig,
    NoPermission; neither shows the content."""
    named = f"{path}, which {KEYTAB_VARIABLE} names"
    hint = "yarnam docs kerberos says how to make one; klist -k -t FILE shows whose it is."
    try:
        content = path.read_bytes()
        found = keytab.principals(content)
    except OSError as error:
        raise BadConfig(f"cannot read {named}: {error.strerror}", hint=hint) from error
    except MalformedData as error:
        raise BadConfig(f"{named}: {error.message}", hint=hint) from error
    with hdfs_errors("looking for a Kerberos ticket"):
        principal = gssapi.identity().principal
    first = found[0] if found else "nobody"
    if first != principal:
        raise BadConfig(f"{named} is {first}'s; the ticket is {principal}'s", hint=hint)
    return content


def without_secrets(job: JobSpec) -> tuple[JobSpec, dict[str, str]]:
    """The job with the values of ``secret_env`` and the URLs of notifications emptied, and the
    values of ``secret_env`` by name."""
    hidden = set(job.secret_env)
    found: dict[str, str] = {}
    pairs = [*job.env, *(pair for role in job.roles for pair in role.env)]
    for name, value in pairs:
        if name not in hidden:
            continue
        if found.setdefault(name, value) != value:
            raise BadSpec(
                f"the secret variable {name} has two values",
                hint="A secret has one value for all roles. Use two names.",
            )

    def emptied(env: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple((name, "" if name in hidden else value) for name, value in env)

    roles: tuple[RoleSpec, ...] = tuple(replace(role, env=emptied(role.env)) for role in job.roles)
    channels = tuple(replace(channel, url="") for channel in job.notify)
    return replace(job, env=emptied(job.env), roles=roles, notify=channels), found


def zip_of(files: Mapping[str, bytes]) -> bytes:
    """A zip archive with these files and fixed times."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, date_time=(2000, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _archive_suffix(name: str) -> str:
    lowered = name.lower()
    for suffix in _ARCHIVE_SUFFIXES:
        if lowered.endswith(suffix):
            return suffix
    return "".join(PurePosixPath(name).suffixes[-1:])
