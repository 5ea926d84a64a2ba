"""An ApplicationMaster in a world of fakes, with time moved by hand; step and planner are real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tests.fakes.clock import FakeClock
from tests.fakes.cluster_view import FakeView, cluster
from tests.fakes.container_broker import FakeBroker
from tests.fakes.journal import FakeJournal, JournalDisk
from tests.fakes.node_hints import FakeHints
from tests.fakes.notifications import FakeNotificationSender
from tests.fakes.output_store import FakeOutputs, OutputDisk
from tests.fakes.serial_executor import InlineSerialExecutor
from tests.fakes.shared_snapshots import FakeSharedSnapshots
from tests.fakes.state_store import FakeStore, StoreDisk
from tests.fakes.status_publisher import FakeStatusPublisher
from tests.fakes.task_mailbox import FakeMailbox
from tests.fakes.ticket_queue import FakeTicketQueue, FakeTicketStore
from yarnam.adapters.shared_snapshot_view import SharedSnapshotView
from yarnam.am.am_ports import AmPorts
from yarnam.am.am_settings import AmSettings
from yarnam.am.status_report import AmFacts
from yarnam.cli.containers.am_assembly import assemble_am
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.model.events import ContainerGranted, LeftRequest
from yarnam.core.model.ids import AskId
from yarnam.core.model.job_spec import GangSpec, JobSpec, RetrySpec, RoleSpec
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.core.model.outcomes import Verdict
from yarnam.core.model.plans import NoFit
from yarnam.core.model.resources import Resources
from yarnam.core.model.snapshot import Closures, ClusterSnapshot, with_closures
from yarnam.core.placement import declared_targets, ladder_for_submit
from yarnam.ports import ClusterView
from yarnam.wire.codec import decode
from yarnam.wire.protocol import VERDICT_FILE
from yarnam.wire.records import JobRecord

APPLICATION = "application_1_0001"
NOTHING_CLOSED = Closures()


def job(tasks: int = 2, gpus: int = 4, **changes: object) -> JobSpec:
    """Workers of one process each; limits short enough to be lived through."""
    spec = JobSpec(
        name="train",
        queue="root.dl",
        user="u",
        framework="command",
        roles=(RoleSpec("worker", tasks, Resources(1024, 1, gpus), ("train",)),),
        gang=GangSpec(hold_timeout_s=30.0, ask_timeout_s=60.0, attempts=3, backoff_base_s=4.0),
        retry=RetrySpec(max_restarts=1),
    )
    return replace(spec, **changes)  # type: ignore[arg-type]


def record_of(spec: JobSpec) -> JobRecord:
    ladder = ladder_for_submit(cluster(), spec)
    assert not isinstance(ladder, NoFit)
    return JobRecord(
        job=spec,
        targets=declared_targets(ladder),
        job_dir="hdfs://nn:8020/user/u/.yarnam/jobs/1",
        submitted_at_s=1.0,
        yarnam_version="0",
        rm_url="http://rm:8088",
    )


@dataclass
class Disk:
    """What outlives an AM attempt."""

    journal: JournalDisk = field(default_factory=JournalDisk)
    store: StoreDisk = field(default_factory=StoreDisk)
    outputs: OutputDisk = field(default_factory=OutputDisk)
    receiver: FakeNotificationSender = field(default_factory=FakeNotificationSender)

    @property
    def verdict(self) -> Verdict | None:
        data = self.store.records.get(VERDICT_FILE)
        return None if data is None else decode(data, Verdict)


class ClosedView:
    """As ``NodeDirectory`` shows the cluster to an ApplicationMaster."""

    def __init__(self, view: ClusterView, closures: Callable[[], Closures | None]) -> None:
        self._view = view
        self._closures = closures

    def snapshot(self, queue: str, *, max_age_s: float | None = None) -> ClusterSnapshot:
        found = self._view.snapshot(queue, max_age_s=max_age_s)
        return with_closures(found, self._closures() or Closures())


class AmWorld:
    """``hall`` None: there is no ticket queue."""

    def __init__(
        self,
        spec: JobSpec,
        disk: Disk,
        am_attempt: int,
        settings: AmSettings,
        hall: FakeTicketStore | None = None,
        snapshots: FakeSharedSnapshots | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.kept: list[HistoryRecord] = []
        self.keep_error: Exception | None = None
        self.claim_error: Exception | None = None
        self.queue_now = ""
        """The job's queue by YARN; empty: it does not say."""
        self.closures: Closures | None = Closures()
        """``None``: ZooKeeper has not answered yet."""
        self.states: dict[str, JobState] = {}
        """Other applications, as YARN reports them; the rest it has forgotten."""
        self.asked_about: list[str] = []
        self.left: Sequence[LeftRequest] = ()
        self.forgotten: list[int] = []
        self.yarn_error: Exception | None = None
        self.released_at: list[Verdict | None] = []
        """The broker's verdict each time that the claims were released."""
        self.learnt: list[tuple[str, str]] = []
        """GPU models that agents have told, and the AM has passed on."""
        self.ticket_queue: FakeTicketQueue | None = None
        self.office_error: Exception | None = None
        if hall is not None:
            hall.now_s = self.clock.now_s
            self.ticket_queue = FakeTicketQueue(hall, APPLICATION, am_attempt)
        self.broker = FakeBroker(self.clock.now_s)
        self.mailbox = FakeMailbox(self.clock.now_s)
        self.view = FakeView(cluster())
        view: ClusterView = ClosedView(self.view, lambda: self.closures)
        if snapshots is not None:
            snapshots.now_s = self.clock.now_s
            view = ClosedView(
                SharedSnapshotView(self.view, snapshots, now_s=self.clock.now_s),
                lambda: self.closures,
            )
        self.publisher = FakeStatusPublisher()
        self.hints = FakeHints(self.clock.now_s)
        self.disk = disk
        self.record = record_of(spec)
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        ports = AmPorts(
            clock=self.clock.bound_to,
            broker=self.broker,
            view=view,
            mailbox=self.mailbox,
            journal=FakeJournal(disk.journal, am_attempt),
            store=FakeStore(disk.store, am_attempt),
            publisher=self.publisher,
            draw=lambda: 0.5,
            sleep=self._sleep,
            executor=lambda name: InlineSerialExecutor(),
            ticket_queue=None if self.ticket_queue is None else self._open_ticket_queue,
            learn=lambda node, model: self.learnt.append((node, model)),
            keep=self._keep,
            queue_now=lambda known: self.queue_now or known,
            closures=lambda: self.closures,
            state_of=self._state_of,
            confirm_claims=self._confirm_claims,
            release_claims=lambda: self.released_at.append(self.broker.verdict),
            left_requests=lambda: self.left,
            forget_requests=lambda: self.forgotten.append(1),
            hints=self.hints,
            outputs=FakeOutputs(disk.outputs) if spec.output else None,
            notify=disk.receiver if spec.notify else None,
        )
        # Of two, as jobs have by default.
        facts = AmFacts(APPLICATION, am_attempt, "http://rm:8088/proxy/x/", am_attempt >= 2)
        self.am = assemble_am(self.record, facts, ports, settings)
        self.run: asyncio.Task[Verdict]

    def _state_of(self, application: str) -> JobState | None:
        self.asked_about.append(application)
        if self.yarn_error is not None:
            raise self.yarn_error
        return self.states.get(application)

    def _confirm_claims(self) -> None:
        if self.claim_error is not None:
            raise self.claim_error

    def _open_ticket_queue(self) -> FakeTicketQueue:
        assert self.ticket_queue is not None
        if self.office_error is not None:
            raise self.office_error
        return self.ticket_queue

    @property
    def status(self) -> JobStatus:
        return self.publisher.statuses[-1]

    @property
    def phase(self) -> str:
        return self.am.gang.phase.value

    async def settle(self) -> None:
        """Until nothing happens any more without time going on."""
        for _ in range(100):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        """Timers and sleepers in the order of their time, the loop keeping up in between."""
        end_s = self.clock.now_s() + seconds
        while True:
            await self.settle()
            due = [*self.clock.timers.values(), *(at for at, _ in self._sleepers)]
            next_s = min([at for at in due if at <= end_s], default=None)
            if next_s is None:
                break
            self.clock.advance(max(0.0, next_s - self.clock.now_s()))
            for sleeper in [one for one in self._sleepers if one[0] <= self.clock.now_s()]:
                self._sleepers.remove(sleeper)
                if not sleeper[1].done():
                    sleeper[1].set_result(None)
        self.clock.advance(end_s - self.clock.now_s())
        await self.settle()

    async def _sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.clock.now_s() + seconds, future))
        await future

    # ---- short cuts ----------------------------------------------------------------------

    async def grant_all(self) -> list[AskId]:
        asks = self.broker.grant_all()
        await self.settle()
        return asks

    def _keep(self, record: HistoryRecord) -> None:
        if self.keep_error is not None:
            raise self.keep_error
        self.kept.append(record)

    async def register_all(self) -> list[AskId]:
        asks = list(self.broker.granted)
        for ask in asks:
            self.mailbox.register(ask, self.broker.granted[ask].node)
        await self.settle()
        return asks

    async def run_gang(self) -> list[AskId]:
        """Up to every process running."""
        await self.settle()
        await self.grant_all()
        asks = await self.register_all()
        for ask in asks:
            self.mailbox.started(ask, ask.attempt)
        await self.settle()
        return asks


@asynccontextmanager
async def am_world(
    spec: JobSpec | None = None,
    disk: Disk | None = None,
    am_attempt: int = 1,
    settings: AmSettings | None = None,
    hall: FakeTicketStore | None = None,
    *,
    is_queue_away: bool = False,
    office_error: Exception | None = None,
    used: int = 0,
    snapshots: FakeSharedSnapshots | None = None,
    can_be_shown: bool = True,
    queue_now: str = "",
    states: Mapping[str, JobState] = MappingProxyType({}),
    closures: Closures | None = NOTHING_CLOSED,
    kept: Mapping[AskId, ContainerGranted] = MappingProxyType({}),
    left: Sequence[LeftRequest] = (),
    forgotten: list[int] | None = None,
) -> AsyncIterator[AmWorld]:
    """``used``: GPUs of each node that are taken. ``kept``: what YARN has kept of the attempt
    before. ``left``: the owner's requests since no AM answered; ``forgotten`` grows when they are
    removed."""
    limits = settings or AmSettings()
    world = AmWorld(spec or job(), disk or Disk(), am_attempt, limits, hall, snapshots)
    world.queue_now = queue_now
    world.states.update(states)
    world.closures = closures
    world.broker.granted.update(kept)
    world.broker.keeps = bool(kept)
    world.left = left
    world.forgotten = [] if forgotten is None else forgotten
    if used:
        world.view.shown = cluster(used=used)
    if world.ticket_queue is not None:
        world.ticket_queue.is_away = is_queue_away
        world.office_error = office_error
    world.publisher.is_broken = not can_be_shown
    world.run = asyncio.get_running_loop().create_task(world.am.run())
    await world.settle()
    try:
        yield world
    finally:
        if not world.run.done():
            world.run.cancel()
        await asyncio.gather(world.run, return_exceptions=True)


async def pass_time(world: AmWorld, seconds: float, *alive: FakeTicketQueue) -> None:
    """The others that are ``alive`` give their signs of life meanwhile."""
    end_s = world.clock.now_s() + seconds
    while (left_s := end_s - world.clock.now_s()) > 0:
        await world.advance(min(10.0, left_s))
        for queue in alive:
            if queue._ticket is not None:
                queue.update(queue._ticket)
