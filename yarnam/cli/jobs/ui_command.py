"""``yarnam ui``: the cluster in a browser."""

from __future__ import annotations

import ipaddress
import logging
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace

import click

from yarnam.cli.options import json_option, open_client
from yarnam.cli.rendering.console import print_json_line, print_line, print_note
from yarnam.cli.rendering.event_text import event_text
from yarnam.cli.signals import INTERRUPTED, Terminated
from yarnam.client import Client, Job, LogPiece, LogSource
from yarnam.client.monitor.job_history import ALL_USERS
from yarnam.client.queues.alert_check import default_file, read_state
from yarnam.client.queues.queue_view import cluster_info, queues_now
from yarnam.client.queues.use_history import UseReader
from yarnam.client.submit.waiting_jobs import read_strikes
from yarnam.core.accounting import task_names
from yarnam.core.accounting.job_summary import HistoryFilter, JobSummary
from yarnam.core.model.events import Event
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_status import JobStatus
from yarnam.core.queues.overview.alerts import NO_ALERTS, AlertState
from yarnam.errors import Unavailable, UsageError, YarnamError
from yarnam.web.cluster_pages import UseView, view_of_record
from yarnam.web.cluster_server import ClusterServer, ClusterSource
from yarnam.web.http.http_server import HttpServer, listen
from yarnam.web.http.local_peers import is_own_peer
from yarnam.web.http.url_token import UrlToken, behind_token, new_secret
from yarnam.web.job_page import JobView
from yarnam.web.log_page import LINES, LogChoice, LogsView, log_tails

log = logging.getLogger("yarnam.cli")

PORT = 8265
"""As of Ray's dashboard, which shows the same kind of thing."""
EVENTS_SHOWN = 60
HOME = "/"
USE_FOR_S, USE_STEP_S = 86400.0, 900.0
USE_RECORDS = 5000
"""Ended jobs of the last day that are counted."""
MOST_OPEN = 16
"""Jobs that are looked at at a time."""
MOST_LOG_READERS = 2
"""Readers of logs at a time, among the server's four threads."""
LOGS_WAIT_S = 60.0
"""After this time a reader of logs gets an answer that asks it to retry."""


@click.command("ui")
@click.option(
    "-p", "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True,
    help="Listen on this port; 0: any free one.",
)  # fmt: skip
@click.option(
    "--address", default="127.0.0.1", show_default=True,
    help="Listen on this IPv4 address, which must be a loopback address.",
)  # fmt: skip
@json_option
@click.pass_context
def command(ctx: click.Context, port: int, address: str, as_json: bool) -> int:
    """Show the cluster, its nodes, queues and jobs in a browser until Ctrl-C.

    The first page has alerts, the GPUs by queue, the longest waits with their reasons, nodes in
    trouble, and active and ended jobs with filters by queue, user and state. Others list all nodes,
    the queues with the reason why each job waits, and each job. They only read. Open the printed
    address: its token lets your browser in, and programs of other users are refused. From another
    machine, forward the port by SSH.
    """
    _check_loopback(address)
    with open_client(ctx) as client:
        server = ClusterServer(cluster_source(client), alerts=_known_alerts(client))
        try:
            listener = listen(address, port)
        except OSError as error:
            raise UsageError(
                f"cannot listen on {address}:{port}: {error.strerror or error}",
                hint="Choose another port, or any free one: --port 0",
            ) from error
        token = UrlToken(new_secret(), listener.getsockname()[1])
        http = HttpServer(listener, behind_token(server.respond, token), is_own_peer)
        url = token.url(address)
        if as_json:
            print_json_line({"url": url})
        else:
            print_line(url)
            print_note("Showing the cluster there until Ctrl-C.")
        try:
            http.serve()
        except Terminated:
            raise
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            http.close()
    return 0


def cluster_source(client: Client) -> ClusterSource:
    """The user's own jobs in full; jobs of others as YARN and the history show them."""

    def active() -> Sequence[JobStatus]:
        return client.jobs(user="")

    history = client.history

    def ended() -> Sequence[JobSummary]:
        return history.jobs(user=ALL_USERS).rows

    views, reader = JobViews(client), UseReader(client.site, history, USE_RECORDS)
    return ClusterSource(
        active=active,
        ended=ended,
        queues=lambda: queues_now(client.site),
        job=views.view,
        logs=views.logs,
        info=lambda: cluster_info(client.site),
        nodes=client.nodes,
        strikes=lambda: read_strikes(client.site),
        use=lambda: _use(reader),
    )


def _use(reader: UseReader) -> UseView:
    """The last day. The last step ends now: all of it is over."""
    to_s = time.time()
    found = reader.read(HistoryFilter(), ALL_USERS, (to_s - USE_FOR_S, to_s, USE_STEP_S))
    notes = []
    if found.listing.hidden:
        notes.append(f"Not counted: the ended jobs of {len(found.listing.hidden)} users, who keep "
                     "their histories to themselves.")  # fmt: skip
    if found.omitted:
        notes.append(f"Not counted: {found.omitted} ended jobs, the oldest.")
    if found.missing:
        notes.append(f"Not counted: jobs that have not ended: {found.missing}")
    return UseView(found.step_s, found.queues, found.total_gpus, notes)


def _known_alerts(client: Client) -> AlertState:
    """Those of `yarnam alerts --once` on this machine, so that an hour need not begin again."""
    try:
        return read_state(client.site, default_file())
    except YarnamError as error:
        log.info("the alerts of earlier looks are not known: %s", error.message)
        return NO_ALERTS


class JobViews:
    """The jobs that somebody looks at. Their connections are kept for the next look."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._readers = threading.BoundedSemaphore(MOST_LOG_READERS)
        self._open: dict[str, Job] = {}

    def view(self, application: str) -> JobView:
        """A job's page: while it runs by its ApplicationMaster, afterwards by its history record,
        else by what is left of it. Raises YarnamError."""
        job = self._job(application)
        try:
            status = job.status()
        except YarnamError:
            # Another user's: its files are not ours to read.
            status = self._of_others(application)
        logs = f"{HOME}jobs/{application}/logs"
        if status.state.is_final:
            with suppress(YarnamError):
                record = self._client.history.record(application, status.user)
                return replace(view_of_record(record, time.time(), HOME), logs=logs)
        events: list[Event] = []
        names: dict[AskId, str] = {}
        if status.user == self._client.site.user:
            with suppress(YarnamError):
                events = job.events()
                names = task_names.task_names(job.record().job, events)
        shown = [(one.at_s, event_text(one, names)) for one in reversed(events[-EVENTS_SHOWN:])]
        return JobView(
            status,
            time.time(),
            shown,
            home=HOME,
            logs=logs,
            node_scheme=self._client.site.rm.url.partition(":")[0],
        )

    def logs(self, application: str, chosen: LogChoice) -> LogsView:
        """The ends of the chosen logs, by default those of the first cause of a failure, else of
        rank 0. Raises YarnamError."""
        job = self._job(application)
        status = job.status()
        if chosen.source == LogSource.PROCESSES.value and (chosen.rank, chosen.task) == (None,) * 2:
            cause = status.verdict.cause if status.verdict is not None else None
            chosen = replace(chosen, rank=cause.rank if cause is not None else 0)
        # YARN's tool, which reads those of ended jobs, is a JVM: the other pages answer meanwhile.
        if not self._readers.acquire(timeout=LOGS_WAIT_S):
            raise Unavailable(
                f"{MOST_LOG_READERS} other logs are being read", hint="Try again in a minute."
            )
        try:
            pieces = job.logs(chosen.task, rank=chosen.rank, tail=LINES, source=chosen.source)
            with closing(_Titled(pieces)) as titled:
                texts, cuts = log_tails(titled)
        finally:
            self._readers.release()
        return LogsView(
            application,
            status.name,
            not status.state.is_final,
            chosen,
            HOME,
            time.time(),
            texts,
            [*titled.notes, *cuts],
            max((rank for task in status.tasks for rank in task.ranks), default=None),
        )

    def _of_others(self, application: str) -> JobStatus:
        jobs = self._client.jobs(user="", include_ended=True)
        found = next((one for one in jobs if one.application == application), None)
        if found is not None:
            return found
        # YARN has forgotten it, so nobody else can say whose it was.
        record = self._client.history.record(application, ALL_USERS)
        return view_of_record(record, time.time(), HOME).status

    def _job(self, application: str) -> Job:
        with self._lock:
            job = self._open.pop(application, None) or self._client.job(application)
            self._open[application] = job
            if len(self._open) > MOST_OPEN:
                # Another thread that reads it gets Unavailable, and the next look opens it again.
                self._open.pop(next(iter(self._open))).close()
            return job


class _Titled:
    """Pieces of logs as (title, bytes); ``notes`` are lines about the logs themselves."""

    def __init__(self, pieces: Iterator[LogPiece]) -> None:
        self._pieces = pieces
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        for piece in self._pieces:
            if piece.is_note:
                self.notes.append(piece.data.decode("utf-8", "replace"))
                continue
            rank = "" if piece.rank is None else f", rank {piece.rank}"
            yield f"{piece.task}{rank}, {piece.container}".removesuffix(", "), piece.data

    def close(self) -> None:
        """End the reading; the agents send no more."""
        if isinstance(self._pieces, Generator):
            self._pieces.close()


def _check_loopback(address: str) -> None:
    try:
        is_loopback = ipaddress.IPv4Address(address).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise UsageError(
            f"--address {address} is no IPv4 loopback address",
            hint="The pages show whatever you may read, without asking who looks: they are for "
            "this machine alone.\nFrom another machine: ssh -L 8265:127.0.0.1:8265 HOST",
        )
