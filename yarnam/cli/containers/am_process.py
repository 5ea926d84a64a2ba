"""Entry of the ApplicationMaster: ``python -m yarnam.cli.containers.am_process`` in Skein's AM
container.

It is started by Skein's Java AM and ends with it. A verdict that an earlier AM attempt has
persisted is obeyed before anything heavy is loaded: YARN starts another attempt after every
deliberate FAILED, and the user waits for it.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlparse

from yarnam._light_imports import light_imports
from yarnam.adapters.process_lifetime import end_with_stdin, leave_at_once_on_sigterm
from yarnam.cli.log_format import PrintableFormatter, log_to_stderr
from yarnam.errors import ExitCode, InternalError, YarnamError
from yarnam.errors.full_disks import disk_full
from yarnam.wire.protocol import (
    ENV_JOB_DIR,
    LOCAL_JOB_FILE,
    LOCAL_KEYTAB_FILE,
    SECRET_FILES,
    VERDICT_FILE,
)

if TYPE_CHECKING:
    from hdfs_utils import FileSystem
    from yarnam.adapters.container_tokens import ContainerTokens, NewTokens
    from yarnam.core.model.outcomes import Verdict

log = logging.getLogger("yarnam.am")

HDFS_TIMEOUT_S = 8.0
"""For one operation; the journal's promise is to give up a call within 30 s."""
LEASE_TIMEOUT_S = 25.0
"""Taking over a dead AM attempt's journal waits for a DataNode's heartbeat (3 s)."""


def main() -> int:
    """The exit code: 0 also for a verdict of failure, once it has reached YARN through Skein."""
    # Threads of gRPC and a fork do not go together.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    # The node's /tmp is everybody's, and may be full. YARN deletes this directory with the job.
    os.environ["TMPDIR"] = str(Path.cwd())
    log_to_stderr(
        PrintableFormatter(
            "%(asctime)s.%(msecs)03d %(levelname)s %(message)s", datefmt="%Y-%m-%d %H:%M:%S"
        ),
        os.environ.get("YARNAM_LOG_LEVEL", "INFO"),
    )
    try:
        end_with_stdin()
        leave_at_once_on_sigterm()
        return _run()
    except YarnamError as error:
        log.error("%s", error)
        return int(error.exit_code)
    except Exception as error:
        if (full := disk_full(error, Path.cwd())) is not None:
            log.error("%s", full)
            return int(full.exit_code)
        log.exception("the ApplicationMaster failed")
        return int(ExitCode.INTERNAL)


def am_attempt_of(container: str) -> int:
    """The AM attempt from YARN's container id, as in
    ``container_e01_1700000000000_0001_02_000001``: its last field but one."""
    try:
        return int(container.split("_")[-2])
    except (IndexError, ValueError):
        raise InternalError(f"not in a YARN container: CONTAINER_ID is {container!r}") from None


def application_of(container: str) -> str:
    """The application id that belongs to a container id."""
    fields = container.split("_")
    return f"application_{fields[-4]}_{fields[-3]}"


def _run() -> int:
    container = os.environ.get("CONTAINER_ID", "")
    am_attempt = am_attempt_of(container)
    application = application_of(container)
    job_uri = os.environ.get(ENV_JOB_DIR, "")
    if not job_uri:
        raise InternalError(f"{ENV_JOB_DIR} is not set")
    log.info("attempt %d of the ApplicationMaster of %s, %s", am_attempt, application, job_uri)
    with light_imports(without_ssl=False):
        from yarnam.adapters.container_tokens import ContainerTokens

    tokens = ContainerTokens.of_this_container(os.environ)
    # Before the first look at HDFS: those of the submission may have ended, in the first attempt
    # too where the job has waited for long.
    in_use = None
    if tokens is not None and (am_attempt > 1 or tokens.have_ended(time.time())):
        in_use = _newest(tokens, job_uri)
    fs = _connect(job_uri)
    job_dir = urlparse(job_uri).path.rstrip("/")
    if am_attempt > 1:
        verdict = _persisted_verdict(fs, job_dir)
        if verdict is not None:
            return _obey(verdict, fs, job_dir, am_attempt)
    with light_imports(without_ssl=False):
        from yarnam.cli.containers.am_wiring import serve

    return serve(fs, job_dir, application, am_attempt, tokens, in_use)


def _newest(tokens: ContainerTokens, uri: str) -> NewTokens | None:
    """Tokens for a later attempt, in its file: by keytab, else those of the attempt before.
    ``None`` means those of the submission have to do. Raises nothing."""
    from yarnam.adapters.container_tokens import NewTokens, obtain_by_keytab
    from yarnam.core.inputs.named_file_systems import named_file_systems
    from yarnam.wire.codec import decode
    from yarnam.wire.records import JobRecord

    if Path(LOCAL_KEYTAB_FILE).exists():
        try:
            job = decode(Path(LOCAL_JOB_FILE).read_bytes(), JobRecord).job
            uris = (uri, *named_file_systems(job))
            found = obtain_by_keytab(LOCAL_KEYTAB_FILE, uris, os.environ)
            tokens.replace(found.tokens)
        except YarnamError as error:
            log.error("%s", error.message)
        else:
            return found
    restored = tokens.restore()
    return NewTokens(restored, tokens.life_from(time.time()).until_s) if restored else None


def _connect(job_uri: str) -> FileSystem:
    with light_imports(without_ssl=False):
        import hdfs_utils

    limits = hdfs_utils.TimeLimits(
        metadata_s=HDFS_TIMEOUT_S,
        data_s=HDFS_TIMEOUT_S,
        close_s=HDFS_TIMEOUT_S,
        lease_s=LEASE_TIMEOUT_S,
    )
    return hdfs_utils.connect(job_uri, limits=limits)


def _persisted_verdict(fs: FileSystem, job_dir: str) -> Verdict | None:
    """Silence proves nothing: the journal, which is read later, decides."""
    from hdfs_utils.errors import HdfsError, NotFound
    from yarnam.core.model.outcomes import Verdict
    from yarnam.errors import WireMismatch
    from yarnam.wire.codec import MAX_BYTES, decode

    try:
        return decode(fs.read_bytes(f"{job_dir}/{VERDICT_FILE}", max_bytes=MAX_BYTES), Verdict)
    except NotFound:
        return None
    except (HdfsError, WireMismatch) as error:
        log.warning("cannot read the verdict: %s", error)
        return None


def _obey(verdict: Verdict, fs: FileSystem, job_dir: str, am_attempt: int) -> int:
    """End the application as the earlier AM attempt decided, which had to leave the secrets, and
    may have been killed before it released its claims."""
    from hdfs_utils.errors import HdfsError
    from yarnam.adapters.hdfs.claim_files import HeldClaims
    from yarnam.adapters.skein.am_client import GrpcSkeinAm
    from yarnam.adapters.skein.broker import SkeinBroker
    from yarnam.core.model.outcomes import VerdictKind
    from yarnam.wire.codec import decode
    from yarnam.wire.records import JobRecord

    log.info("obeying the verdict %s: %s", verdict.kind.value, verdict.message)
    record = decode(Path(LOCAL_JOB_FILE).read_bytes(), JobRecord)
    if verdict.kind is not VerdictKind.FAILED or am_attempt >= record.job.am.attempts:
        try:
            for name in SECRET_FILES:
                fs.delete(f"{job_dir}/{name}")
        except HdfsError as error:
            log.warning("the job's secrets are not removed: %s", error)
    HeldClaims(fs, record.job, job_dir.rpartition("/")[2], record.rm_url).release()
    SkeinBroker(GrpcSkeinAm.of_this_container(), lambda address: None).shutdown(verdict)
    return 0


def _leave(code: int) -> NoReturn:
    """Without waiting for threads that a dead HDFS or a slow gRPC may still hold."""
    logging.shutdown()
    # The disk of the container's logs may be full.
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _leave(main())
