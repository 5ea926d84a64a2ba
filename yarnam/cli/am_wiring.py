"""Puts an AM attempt together: the real adapters behind the ports, and the loop."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hdfs_utils import FileSystem, TimeLimits
from yarnam.adapters.clock import SystemClock
from yarnam.adapters.early_containers import UNCLAIMED_LIMIT_S, EarlyContainers
from yarnam.adapters.early_view import WithoutEarly
from yarnam.adapters.gpu_inventory import FileShelf, GpuInventory, ZooKeeperShelf
from yarnam.adapters.grpc_mailbox import GrpcMailbox
from yarnam.adapters.hadoop_site import rm_web_urls
from yarnam.adapters.hdfs_outputs import HdfsOutputs
from yarnam.adapters.hdfs_store import HdfsJournal, HdfsStateStore
from yarnam.adapters.node_directory import NodeDirectory
from yarnam.adapters.rm_rest import ResourceManager
from yarnam.adapters.rm_waiters import RmWaiters
from yarnam.adapters.skein_am import GrpcSkeinAm
from yarnam.adapters.skein_broker import SkeinBroker
from yarnam.adapters.skein_nodes import FallbackView, SkeinNodeView
from yarnam.adapters.zookeeper_gate import Gate
from yarnam.adapters.zookeeper_hints import ZooKeeperHints
from yarnam.am.loop import ApplicationMaster
from yarnam.am.outside import AmPorts
from yarnam.am.status import AmFacts
from yarnam.errors import BadConfig, ExitCode, InternalError, YarnamError
from yarnam.model.outcomes import Verdict, VerdictKind
from yarnam.ports import NoNodeHints, Superseded
from yarnam.ports.tickets import TicketOffice
from yarnam.wire.codec import decode, encode
from yarnam.wire.protocol import (
    ENV_AM_ADDRESS,
    JOURNAL_DIRECTORY,
    LOCAL_CREDENTIALS_FILE,
    LOCAL_JOB_FILE,
    LOCAL_ZOOKEEPER_FILE,
    VERDICT_FILE,
)
from yarnam.wire.records import JobRecord

if TYPE_CHECKING:
    from yarnam.am.inputs import DataWays

log = logging.getLogger("yarnam.am")

DATA_TIMEOUT_S = 15.0
"""For one operation on the inputs' file systems: nobody but the care of inputs waits for it."""


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
    view = FallbackView(rm, SkeinNodeView())
    gate = _gate(record)
    inventory = GpuInventory(
        ZooKeeperShelf(gate) if gate else FileShelf(fs, _home_of_jobs(job_dir))
    )
    directory = NodeDirectory(
        view, record.job.queue, rules=record.gpu_models, learnt=inventory.known
    )

    def agent_env() -> Mapping[str, str]:
        return {ENV_AM_ADDRESS: mailbox.address}

    # A later AM attempt goes by the journal: what Skein asks for anew by itself is given back.
    early = EarlyContainers(record.early, limit_s=UNCLAIMED_LIMIT_S if am_attempt == 1 else 0.0)
    broker = SkeinBroker(
        GrpcSkeinAm.of_this_container(), directory.find, agent_env=agent_env, early=early
    )
    store = HdfsStateStore(fs, job_dir, am_attempt)
    ports = AmPorts(
        clock=SystemClock,
        broker=broker,
        view=WithoutEarly(directory, record.targets, broker.early_seats),
        mailbox=mailbox,
        journal=HdfsJournal(fs, f"{job_dir}/{JOURNAL_DIRECTORY}", am_attempt),
        store=store,
        desk=mailbox.desk,
        draw=random.random,
        waiters=RmWaiters(rm, application),
        office=_ticket_office(gate, application, am_attempt),
        hints=ZooKeeperHints(gate, application) if gate else NoNodeHints(),
        learn=inventory.learn,
        outputs=HdfsOutputs(record.job, application, am_attempt) if record.job.output else None,
        data=_data_ways(fs, gate, mailbox) if record.job.inputs else None,
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
        if gate is not None:
            gate.close()
    return 0


def _gate(record: JobRecord) -> Gate | None:
    """To ZooKeeper, where there is one. Nothing of it is loaded before it is used."""
    if not record.zookeeper:
        return None
    credentials = Path(LOCAL_ZOOKEEPER_FILE)
    secret = _local(LOCAL_ZOOKEEPER_FILE).decode().strip() if credentials.exists() else ""
    return Gate(record.zookeeper, secret)


def _data_ways(fs: FileSystem, gate: Gate | None, mailbox: GrpcMailbox) -> DataWays:
    from yarnam.adapters.data_ways import check_on_this_node, data_opener
    from yarnam.am.inputs import DataWays

    limits = TimeLimits.all(DATA_TIMEOUT_S)
    opener = data_opener(fs.uri, gate, limits)
    return DataWays(opener, mailbox.inputs, check_on_this_node, _node_host())


def _ticket_office(
    gate: Gate | None, application: str, am_attempt: int
) -> Callable[[], TicketOffice] | None:
    """kazoo is loaded by the first call, beside the rest of the AM's start."""
    if gate is None:
        return None

    def make() -> TicketOffice:
        from yarnam.adapters.zookeeper_tickets import ZooKeeperTickets

        return ZooKeeperTickets(gate.open(), application, am_attempt)

    return make


def _home_of_jobs(job_dir: str) -> str:
    """The user's own ``.yarnam``, where the directory ``jobs`` lies."""
    return job_dir.rpartition("/")[0].rpartition("/")[0]


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
