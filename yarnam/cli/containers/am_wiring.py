"""Puts an AM attempt together: the real adapters behind the ports, and the loop."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from hdfs_utils import FileSystem, TimeLimits
from hdfs_utils.backends.connect import is_kerberos
from yarnam._light_imports import on_first_use
from yarnam.adapters.clock import SystemClock
from yarnam.adapters.container_tokens import (
    ContainerTokens,
    NewTokens,
    keep_replacing,
    obtain_by_keytab,
)
from yarnam.adapters.gpu_inventory import FileInventoryStore, GpuInventory
from yarnam.adapters.grpc.am_server import GrpcMailbox, bind_address
from yarnam.adapters.hdfs.claim_files import HeldClaims
from yarnam.adapters.hdfs.job_store import HdfsJournal, HdfsStateStore, LeftRequests
from yarnam.adapters.hdfs.output_store import HdfsOutputStore
from yarnam.adapters.http_identity import HttpIdentity, groups_of
from yarnam.adapters.shared_snapshot_view import SharedSnapshotView
from yarnam.adapters.skein.am_client import GrpcSkeinAm
from yarnam.adapters.skein.broker import SkeinBroker
from yarnam.adapters.skein.early_containers import (
    UNCLAIMED_LIMIT_S,
    EarlyContainers,
    ViewWithoutEarly,
)
from yarnam.adapters.skein.node_reports import FallbackView, SkeinNodeView
from yarnam.adapters.skein.response_log import ResponseLog
from yarnam.adapters.skein.responses import Responses
from yarnam.adapters.yarn.addresses import (
    acl_settings,
    proxy_hosts,
    read_settings,
    rm_web_urls,
)
from yarnam.adapters.yarn.application_list import ApplicationList
from yarnam.adapters.yarn.node_directory import NodeDirectory
from yarnam.adapters.yarn.pending_applications import PendingApplications
from yarnam.adapters.yarn.request_budget import RequestBudget
from yarnam.adapters.yarn.rest import ResourceManager
from yarnam.adapters.zookeeper.lazy_session import LazySession
from yarnam.am.am_ports import AmPorts
from yarnam.am.am_settings import AmSettings
from yarnam.am.loop import remove_secrets
from yarnam.am.serial_executor import ThreadSerialExecutor
from yarnam.am.status_report import AmFacts
from yarnam.cli.containers.am_assembly import assemble_am
from yarnam.core.failures.token_renewal import TokenLife
from yarnam.core.gang.am_attempts import ends_the_job
from yarnam.core.inputs.named_file_systems import named_file_systems
from yarnam.core.model.events import Event
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import JobSpec, acl_text, users_and_groups
from yarnam.core.model.job_status import JobState
from yarnam.core.model.outcomes import Verdict, VerdictKind
from yarnam.core.model.snapshot import Closures
from yarnam.core.queues.queue_state import full_queue, names_queue
from yarnam.errors import (
    BadConfig,
    ExitCode,
    InternalError,
    PathTaken,
    Unavailable,
    YarnamError,
)
from yarnam.errors.full_disks import disk_full, in_words
from yarnam.ports import ClusterView, NoNodeHints, StateStore, Superseded
from yarnam.ports.notifications import NotificationSender
from yarnam.ports.pre_runs import PreRunStore
from yarnam.ports.ticket_queue import TicketQueue
from yarnam.web.http.http_server import HttpServer, listen
from yarnam.web.job_server import JobServer, JobSource, open_job_server
from yarnam.web.page_access import PageAccess
from yarnam.web.training_series import SeriesKeeper
from yarnam.wire.codec import decode, encode
from yarnam.wire.output_paths import pre_run_checkpoint_path
from yarnam.wire.protocol import (
    ENV_AM_ADDRESS,
    JOURNAL_DIRECTORY,
    LOCAL_CREDENTIALS_FILE,
    LOCAL_JOB_FILE,
    LOCAL_KEYTAB_FILE,
    LOCAL_NOTIFY_FILE,
    LOCAL_PAGE_URL_FILE,
    LOCAL_RELEASES_FILE,
    LOCAL_RESPONSE_LOG,
    LOCAL_ZOOKEEPER_FILE,
    PRE_RUNS_DIRECTORY,
    VERDICT_FILE,
    ZOOKEEPER_KERBEROS,
)
from yarnam.wire.records import JobRecord, NotifyUrls

with on_first_use():
    from yarnam.adapters import notification_channels
    from yarnam.adapters.hdfs import data_access, history_store, pre_run_store
    from yarnam.adapters.zookeeper import (
        closed_places,
        inventory_store,
        node_hints,
        snapshot_store,
        ticket_queue,
    )
    from yarnam.am import notifier
    from yarnam.am.inputs import input_integrity
    from yarnam.cli.rendering import event_text

log = logging.getLogger("yarnam.am")

DATA_TIMEOUT_S = 15.0
"""For one operation on the inputs' file systems: only the checks of inputs wait for it."""


def serve(
    fs: FileSystem,
    job_dir: str,
    application: str,
    am_attempt: int,
    tokens: ContainerTokens | None = None,
    in_use: NewTokens | None = None,
) -> int:
    """Run the AM attempt to its end; the process's exit code. ``in_use``: what ``tokens`` has in
    place of what YARN gave it, and gives agents."""
    record = decode(_local(LOCAL_JOB_FILE), JobRecord)
    facts = AmFacts(
        application,
        am_attempt,
        _tracking_url(record, application),
        is_last_attempt=am_attempt >= record.job.am.attempts,
    )
    mailbox = GrpcMailbox(
        record.job,
        _local(LOCAL_CREDENTIALS_FILE),
        host=_node_host(),
        application=application,
        am_attempt=am_attempt,
    )
    if tokens is not None:
        _keep_tokens(tokens, in_use, mailbox, (fs.uri, *named_file_systems(record.job)))
    session = _session(record)
    ports = _ports(fs, job_dir, record, facts, mailbox, session)
    page = _open_page(record, mailbox, HdfsStateStore(fs, job_dir, am_attempt))
    try:
        asyncio.run(assemble_am(record, facts, ports).run())
    except Superseded as error:
        # The newer attempt owns the application now: nothing of it may be touched.
        log.error("%s", error)
        return int(error.exit_code)
    except Exception as error:
        log.exception("this attempt of the ApplicationMaster failed")
        verdict = _failure(error)
        is_taken = isinstance(error, PathTaken)
        if not is_taken and not _is_final(record, application):
            return verdict.exit_code  # YARN starts another attempt
        verdict = _persisted(ports.store, verdict)
        if ports.notify is not None:
            sender = ports.notify
            last = notifier.Notifier(
                record.job.notify,
                sender,
                ports.store,
                ThreadSerialExecutor,
                AmSettings(),
                asyncio.sleep,
            )
            asyncio.run(notifier.notify_failure(last, record, facts, verdict))
        if not is_taken or facts.is_last_attempt:
            remove_secrets(ports.store)
        ports.release_claims()
        ports.broker.shutdown(verdict)
    finally:
        if page is not None:
            page.close()
        mailbox.close()
        if session is not None:
            session.close()
    return 0


def _queue_now(rm: ResourceManager, application: str, known: str) -> str:
    """The full name; ``known`` where the ResourceManager does not say another one."""
    try:
        found = rm.application(application)
        if found is None or not found.queue or names_queue(found.queue, known):
            return known
        return full_queue(found.queue, [queue.name for queue in rm.queues()]) or known
    except YarnamError as error:
        log.info("which queue the job is in is unknown: %s", error.message)
        return known


def _state_of(rm: ResourceManager, other: str, own: str) -> JobState | None:
    """Raises Unavailable. A ResourceManager that does not know this job either has lost them all:
    that says nothing about the other one."""
    found = rm.application(other)
    if found is None and rm.application(own) is None:
        raise Unavailable(f"the ResourceManager knows neither {other} nor this job")
    return None if found is None else found.job_state


def _keep_tokens(
    tokens: ContainerTokens,
    in_use: NewTokens | None,
    mailbox: GrpcMailbox,
    file_systems: Sequence[str],
) -> None:
    """By the owner's client, or by the keytab that came along, until this process ends."""

    def take(found: Sequence[str]) -> None:
        tokens.replace(found)
        mailbox.hand_out(found)

    mailbox.control.take_tokens = take
    life = tokens.life_from(time.time())
    if in_use is not None:
        mailbox.hand_out(in_use.tokens)
        life = TokenLife(time.time(), in_use.until_s)
    if not Path(LOCAL_KEYTAB_FILE).exists():
        return

    def obtain() -> NewTokens:
        return obtain_by_keytab(LOCAL_KEYTAB_FILE, file_systems, os.environ)

    def keep() -> None:
        keep_replacing(life, obtain, take, threading.Event().wait)

    threading.Thread(target=keep, name="tokens", daemon=True).start()


def _ports(
    fs: FileSystem,
    job_dir: str,
    record: JobRecord,
    facts: AmFacts,
    mailbox: GrpcMailbox,
    session: LazySession | None,
) -> AmPorts:
    """The real adapters."""
    job, application, am_attempt = record.job, facts.application, facts.am_attempt
    budget = RequestBudget()
    labels = job.node_labels
    rm = ResourceManager(_rm_urls(record), who=_who(job.user), partitions=labels, budget=budget)
    inventory = GpuInventory(
        inventory_store.ZooKeeperInventoryStore(session)
        if session
        else FileInventoryStore(fs, _home_of_jobs(job_dir))
    )
    closures = closed_places.ClosureReader(session) if session else Closures
    directory = NodeDirectory(
        # Jobs share the queues' part of the partition without a label.
        _shared(FallbackView(rm, SkeinNodeView()), session if labels == ("",) else None),
        job.queue,
        rules=record.gpu_models,
        learnt=inventory.known,
        node_labels=labels,
        closures=closures,
    )
    # A later AM attempt goes by the journal: what Skein asks for again on its own is released.
    early = EarlyContainers(
        record.prelaunched, limit_s=UNCLAIMED_LIMIT_S if am_attempt == 1 else 0.0
    )
    broker = SkeinBroker(
        GrpcSkeinAm.of_this_container(),
        directory.find,
        agent_env=lambda: {ENV_AM_ADDRESS: mailbox.address},
        early_containers=early,
        responses=Responses.of_this_container(ResponseLog(Path(LOCAL_RESPONSE_LOG))),
        releases=Path(LOCAL_RELEASES_FILE),
        am_attempt=am_attempt,
    )
    requests = LeftRequests(fs, job_dir)
    claims = HeldClaims(fs, job, job_dir.rpartition("/")[2], record.rm_url)
    return AmPorts(
        clock=SystemClock,
        broker=broker,
        view=ViewWithoutEarly(
            directory,
            record.targets,
            broker.unclaimed_early,
            lambda: rm.tasks_by_node(application, am_attempt),
        ),
        mailbox=mailbox,
        journal=HdfsJournal(fs, f"{job_dir}/{JOURNAL_DIRECTORY}", am_attempt),
        store=HdfsStateStore(fs, job_dir, am_attempt),
        publisher=mailbox.control,
        draw=random.random,
        waiters=PendingApplications(rm, application),
        queue_now=lambda known: _queue_now(rm, application, known),
        closures=closures,
        state_of=lambda other: _state_of(rm, other, application),
        left_requests=requests.read,
        forget_requests=requests.forget,
        attempt_ends=lambda: _attempt_ends(rm, application),
        budget_trouble=lambda: budget.trouble,
        ticket_queue=_ticket_queue(session, application, rm, am_attempt, job.queue),
        hints=(
            node_hints.ZooKeeperHints(session, application, directory.nodes)
            if session
            else NoNodeHints()
        ),
        learn=inventory.learn,
        keep=lambda found: _history(fs, job_dir).put(found),
        confirm_claims=claims.confirm,
        release_claims=claims.release,
        outputs=HdfsOutputStore(job, application, am_attempt) if job.output else None,
        data=_data_access(fs, session, mailbox) if job.inputs else None,
        notify=_notification_sender(job) if job.notify else None,
        pre_runs=_pre_runs(fs, job_dir, record, application) if job.pre_run.is_due else None,
    )


def _history(fs: FileSystem, job_dir: str) -> history_store.HistoryStore:
    is_checked, _ = acl_settings(os.environ.get("HADOOP_CONF_DIR", ""))
    return history_store.HistoryStore(
        fs, f"{_home_of_jobs(job_dir)}/history", is_private=is_checked
    )


def _open_page(record: JobRecord, mailbox: GrpcMailbox, store: StateStore) -> HttpServer | None:
    """The job's page; ``None`` means there is none, which does not hold up the job."""
    host, control = _node_host(), mailbox.control
    source = JobSource(
        status_json=control.status_json,
        events_json=control.events_json,
        event_count=control.event_count,
        metrics=mailbox.metrics,
        event_text=_event_text,
    )
    conf_dir = os.environ.get("HADOOP_CONF_DIR", "")
    try:
        proxies = [
            *proxy_hosts(conf_dir),
            *filter(None, [urlsplit(record.rm_url).hostname]),
        ]
        is_checked, admins = acl_settings(conf_dir)
        listener = listen(bind_address(host))
    except (OSError, BadConfig) as error:
        log.warning("the job has no page: %s", error)
        return None
    # YARN has one policy for all of its daemons (yarn.http.policy).
    is_https = record.rm_url.startswith("https:")
    viewers = acl_text(*users_and_groups(record.job.acls.view))
    access = PageAccess(record.job.user, (viewers, admins), groups_of, is_checked)
    server = JobServer(source, node_scheme="https" if is_https else "http", access=access)
    SeriesKeeper(server.series, store).start()
    return open_job_server(server, listener, proxies, lambda port: _announce(host, port))


def _event_text(event: Event, names: Mapping[AskId, str]) -> str:
    return event_text.event_text(event, names)


def _announce(host: str, port: int) -> None:
    """Tell YARN where the page is, by the interceptor; and Skein's own pages, which are the
    application's where there is no interceptor or YARN is older than 3.2."""
    url = f"http://{host}:{port}/"
    log.info("the job's page is at %s, for YARN's proxy", url)
    written = Path(f"{LOCAL_PAGE_URL_FILE}.new")
    try:
        written.write_text(url, encoding="ascii")
        written.replace(LOCAL_PAGE_URL_FILE)
    except OSError as error:
        log.warning("YARN has no link to the job's page: %s", in_words(error, written))
    skein = GrpcSkeinAm.of_this_container()
    try:
        skein.add_page("job", url, "job page")
    except YarnamError as error:
        log.warning("Skein's pages have no link to the job's page: %s", error)
    finally:
        skein.close()


def _pre_runs(fs: FileSystem, job_dir: str, record: JobRecord, application: str) -> PreRunStore:
    job = record.job
    checkpoints = job.checkpoint.directory
    if checkpoints:
        checkpoints = pre_run_checkpoint_path(checkpoints, application)
    root = f"{_home_of_jobs(job_dir)}/{PRE_RUNS_DIRECTORY}"
    passed = pre_run_store.PassedPrograms(fs, root)
    return pre_run_store.HdfsPreRuns(passed, job.pre_run.key, application, checkpoints)


def _session(record: JobRecord) -> LazySession | None:
    """To ZooKeeper, where there is one. Nothing of it is loaded before it is used."""
    if not record.zookeeper:
        return None
    credentials = Path(LOCAL_ZOOKEEPER_FILE)
    secret = _local(LOCAL_ZOOKEEPER_FILE).decode().strip() if credentials.exists() else ""
    if secret == ZOOKEEPER_KERBEROS:
        # The AM has no ticket: by the keytab that has come along.
        secret = f"{ZOOKEEPER_KERBEROS}:{Path(LOCAL_KEYTAB_FILE).absolute()}"
    return LazySession(record.zookeeper, secret)


def _shared(view: ClusterView, session: LazySession | None) -> ClusterView:
    if session is None:
        return view
    return SharedSnapshotView(view, snapshot_store.ZooKeeperSnapshots(session))


def _data_access(
    fs: FileSystem, session: LazySession | None, mailbox: GrpcMailbox
) -> input_integrity.DataAccess:
    limits = TimeLimits.all(DATA_TIMEOUT_S)
    opener = data_access.data_opener(fs.uri, session, limits)
    return input_integrity.DataAccess(
        opener, mailbox.inputs, data_access.check_on_this_node, _node_host()
    )


def _notification_sender(job: JobSpec) -> NotificationSender | None:
    """``None`` means the URLs are gone, which they are when the job has ended."""
    if not Path(LOCAL_NOTIFY_FILE).exists():
        return None
    urls = decode(_local(LOCAL_NOTIFY_FILE), NotifyUrls).urls
    channels = [replace(one, url=url) for one, url in zip(job.notify, urls, strict=True)]
    return notification_channels.ChannelSender(channels)


def _ticket_queue(
    session: LazySession | None,
    application: str,
    rm: ResourceManager,
    am_attempt: int,
    queue: str,
) -> Callable[[], TicketQueue] | None:
    """kazoo is loaded by the first call, beside the rest of the AM's start."""
    if session is None:
        return None

    def make() -> TicketQueue:
        applications = ApplicationList(rm)
        return ticket_queue.ZooKeeperTicketQueue(
            session.open(), application, applications, am_attempt, queue=queue
        )

    return make


def _home_of_jobs(job_dir: str) -> str:
    """The user's own ``.yarnam``, where the directory ``jobs`` lies."""
    return job_dir.rpartition("/")[0].rpartition("/")[0]


def _is_final(record: JobRecord, application: str) -> bool:
    """Whether the job ends with this attempt's failure. When that is unknown, YARN decides it."""
    try:
        rm = ResourceManager(_rm_urls(record), who=_who(record.job.user))
    except YarnamError as error:
        log.warning("the earlier attempts are not known: %s", error)
        return False
    ends_s = _attempt_ends(rm, application)
    return bool(ends_s) and ends_the_job(record.job.am, ends_s, time.time())


def _attempt_ends(rm: ResourceManager, application: str) -> Sequence[float]:
    """When the attempts of the AM ended, 0 for one that lives; empty if unknown."""
    try:
        return tuple(rm.attempt_ends(application).values())
    except YarnamError as error:
        log.warning("the earlier attempts are not known: %s", error)
        return ()


def _failure(error: Exception) -> Verdict:
    """The AM's own end. Not persisted while YARN will start another attempt, which continues from
    the journal."""
    if full := disk_full(error, Path.cwd()):
        node = os.environ.get("NM_HOST", "its node")
        text = f"the ApplicationMaster's disk on {node} is full: {full.message}"
        return Verdict(VerdictKind.FAILED, int(full.exit_code), text, full.hint)
    if isinstance(error, YarnamError):
        return Verdict(VerdictKind.FAILED, int(error.exit_code), error.message, error.hint)
    text = f"the ApplicationMaster failed: {type(error).__name__}: {error}"
    hint = "See application.driver.log of the ApplicationMaster; this is worth a bug report."
    return Verdict(VerdictKind.FAILED, int(ExitCode.INTERNAL), text, hint)


def _persisted(store: StateStore, verdict: Verdict) -> Verdict:
    """The one that the job has already, where only its report to YARN has failed; or this one."""
    try:
        before = store.get(VERDICT_FILE)
        if before is not None:
            return decode(before, Verdict)
        store.put(VERDICT_FILE, encode(verdict))
    except YarnamError as error:
        log.error("the verdict could not be written: %s", error)
    return verdict


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


def _who(user: str) -> HttpIdentity:
    """The user by name, or by the token with which the job was submitted."""
    conf_dir = os.environ.get("HADOOP_CONF_DIR", "")
    settings = read_settings(conf_dir, "core-site.xml") if conf_dir else {}
    return HttpIdentity(user, is_kerberos(settings), conf_dir)


def _tracking_url(record: JobRecord, application: str) -> str:
    return f"{record.rm_url.rstrip('/')}/proxy/{application}/" if record.rm_url else ""
