"""Puts an AM attempt together: the real adapters behind the ports, and the loop."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Mapping
from pathlib import Path

from hdfs_utils import FileSystem
from yarnam.adapters.clock import SystemClock
from yarnam.adapters.grpc_mailbox import GrpcMailbox
from yarnam.adapters.hadoop_site import rm_web_urls
from yarnam.adapters.hdfs_store import HdfsJournal, HdfsStateStore
from yarnam.adapters.node_directory import NodeDirectory
from yarnam.adapters.rm_rest import ResourceManager
from yarnam.adapters.skein_am import GrpcSkeinAm
from yarnam.adapters.skein_broker import SkeinBroker
from yarnam.adapters.skein_nodes import FallbackView, SkeinNodeView
from yarnam.am.loop import AmPorts, ApplicationMaster
from yarnam.am.status import AmFacts
from yarnam.errors import BadConfig, ExitCode, InternalError, YarnamError
from yarnam.model.outcomes import Verdict, VerdictKind
from yarnam.ports import Superseded
from yarnam.wire.codec import decode, encode
from yarnam.wire.protocol import (
    ENV_AM_ADDRESS,
    JOURNAL_DIRECTORY,
    LOCAL_CREDENTIALS_FILE,
    LOCAL_JOB_FILE,
    VERDICT_FILE,
)
from yarnam.wire.records import JobRecord

log = logging.getLogger("yarnam.am")


def serve(fs: FileSystem, job_dir: str, application: str, am_attempt: int) -> int:
    """Run the AM attempt to its end; the process's exit code."""
    record = decode(_local(LOCAL_JOB_FILE), JobRecord)
    facts = AmFacts(application, am_attempt, _tracking_url(record, application))
    mailbox = GrpcMailbox(
        record.job,
        _local(LOCAL_CREDENTIALS_FILE),
        host=_node_host(),
        application=application,
    )
    rm = ResourceManager(_rm_urls(record), user=record.job.user)
    directory = NodeDirectory(FallbackView(rm, SkeinNodeView()), record.job.queue)

    def agent_env() -> Mapping[str, str]:
        return {ENV_AM_ADDRESS: mailbox.address}

    broker = SkeinBroker(GrpcSkeinAm.of_this_container(), directory.find, agent_env=agent_env)
    store = HdfsStateStore(fs, job_dir, am_attempt)
    ports = AmPorts(
        clock=SystemClock,
        broker=broker,
        view=directory,
        mailbox=mailbox,
        journal=HdfsJournal(fs, f"{job_dir}/{JOURNAL_DIRECTORY}", am_attempt),
        store=store,
        desk=mailbox.desk,
        draw=random.random,
    )
    try:
        asyncio.run(ApplicationMaster(record, facts, ports).run())
    except Superseded as error:
        # The newer attempt owns the application now: nothing of it may be touched.
        log.error("%s", error)
        return int(error.exit_code)
    except Exception as error:
        log.exception("this attempt of the ApplicationMaster failed")
        verdict = _failure(error)
        if am_attempt >= record.job.am.attempts:
            _persist(store, verdict)
        broker.shutdown(verdict)
    finally:
        mailbox.close()
    return 0


def _failure(error: Exception) -> Verdict:
    """The AM's own end. Not persisted while YARN will start another attempt, which goes on from
    the journal."""
    if isinstance(error, YarnamError):
        return Verdict(VerdictKind.FAILED, int(error.exit_code), error.message, error.hint)
    text = f"the ApplicationMaster failed: {type(error).__name__}: {error}"
    hint = "See application.driver.log of the ApplicationMaster; this is worth a bug report."
    return Verdict(VerdictKind.FAILED, int(ExitCode.INTERNAL), text, hint)


def _persist(store: HdfsStateStore, verdict: Verdict) -> None:
    try:
        store.put(VERDICT_FILE, encode(verdict))
    except YarnamError as error:
        log.error("the verdict could not be written: %s", error)


def _node_host() -> str:
    host = os.environ.get("NM_HOST", "")
    if not host:
        raise InternalError("NM_HOST is not set: not in a YARN container")
    return host


def _local(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise InternalError(f"{name} is not in the container: {error}") from error


def _rm_urls(record: JobRecord) -> list[str]:
    """As the client reached it first, then as the configuration has them."""
    urls = [record.rm_url] if record.rm_url else []
    try:
        urls += rm_web_urls(os.environ.get("HADOOP_CONF_DIR", ""))
    except BadConfig as error:
        if not urls:
            raise
        log.warning("%s", error)
    return list(dict.fromkeys(urls))


def _tracking_url(record: JobRecord, application: str) -> str:
    return f"{record.rm_url.rstrip('/')}/proxy/{application}/" if record.rm_url else ""
