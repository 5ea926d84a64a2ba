"""The outside world of an ApplicationMaster: its ports, and one executor of work for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from yarnam.am.plan_service import Sleep
from yarnam.am.probes.growth_probe import Waiters
from yarnam.am.serial_executor import SerialExecutor, ThreadSerialExecutor
from yarnam.core.accounting.history_record import HistoryRecord
from yarnam.core.model.events import LeftRequest
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_status import JobState
from yarnam.core.model.snapshot import Closures
from yarnam.ports import (
    Clock,
    ClusterView,
    ContainerBroker,
    Inbox,
    Journal,
    NodeHints,
    NoNodeHints,
    StateStore,
    StatusPublisher,
    TaskMailbox,
)
from yarnam.ports.notifications import NotificationSender
from yarnam.ports.output_store import OutputStore
from yarnam.ports.pre_runs import PreRunStore
from yarnam.ports.ticket_queue import TicketQueue

if TYPE_CHECKING:
    # Loaded for jobs that have inputs.
    from yarnam.am.inputs.input_integrity import DataAccess


@dataclass(frozen=True, slots=True)
class AmPorts:
    """The outside world of one AM attempt."""

    clock: Callable[[Inbox], Clock]
    broker: ContainerBroker
    view: ClusterView
    mailbox: TaskMailbox
    journal: Journal
    store: StateStore
    publisher: StatusPublisher
    draw: Callable[[], float]
    sleep: Sleep = asyncio.sleep
    executor: Callable[[str], SerialExecutor] = ThreadSerialExecutor
    hints: NodeHints = field(default_factory=NoNodeHints)
    waiters: Waiters = tuple
    """Who waits for GPUs, asked before the gang grows on its own."""
    learn: Callable[[NodeId, str], None] = lambda node, model: None
    """Keeps the GPU model that an agent has seen on a node. May block like a port."""
    keep: Callable[[HistoryRecord], None] = lambda record: None
    """Writes the job's history record. May block like a port."""
    confirm_claims: Callable[[], None] = lambda: None
    """Checks that the job has the directories that it writes to. Raises PathTaken: another job has
    one. May block like a port."""
    release_claims: Callable[[], None] = lambda: None
    """Lets other jobs have these directories. Raises nothing. May block like a port."""
    queue_now: Callable[[str], str] = str
    """The full name of the queue that YARN has the job in, given the one that is known; the same if
    YARN does not say. May block like a port."""
    closures: Callable[[], Closures | None] = Closures
    """The nodes and queues that administrators keep closed; ``None`` while that is not known. May
    block like a port."""
    state_of: Callable[[str], JobState | None] = lambda application: None
    """The state of another application; ``None`` if YARN has forgotten it. Raises Unavailable. May
    block like a port."""
    attempt_ends: Callable[[], Iterable[float]] = tuple
    """When the earlier attempts of the AM ended; empty if that is unknown. May block like a
    port."""
    left_requests: Callable[[], Sequence[LeftRequest]] = tuple
    """The owner's requests since no AM answered. Raises Unavailable. May block like a port."""
    forget_requests: Callable[[], None] = lambda: None
    """Removes them. Raises nothing. May block like a port."""
    budget_trouble: Callable[[], str] = str
    """Why the ResourceManager is asked less often than the job would; empty means it is not."""
    ticket_queue: Callable[[], TicketQueue] | None = None
    """Opens the queue; called in a thread. ``None`` means there is no ZooKeeper."""
    outputs: OutputStore | None = None
    """``None`` means the job has no outputs."""
    data: DataAccess | None = None
    """``None`` means the job has no inputs."""
    notify: NotificationSender | None = None
    """``None`` means the job notifies nobody."""
    pre_runs: PreRunStore | None = None
    """``None`` means the job has no pre-run."""


@dataclass(slots=True)
class PortExecutors:
    """One executor for each port. The progress has its own, so that it never delays an ask."""

    make: Callable[[str], SerialExecutor]
    broker: SerialExecutor = field(init=False)
    mailbox: SerialExecutor = field(init=False)
    view: SerialExecutor = field(init=False)
    journal: SerialExecutor = field(init=False)
    store: SerialExecutor = field(init=False)
    ticket_queue: SerialExecutor = field(init=False)
    courtesy: SerialExecutor = field(init=False)
    outputs: SerialExecutor = field(init=False)
    inputs: SerialExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.broker = self.make("broker")
        self.mailbox = self.make("mailbox-calls")
        self.view = self.make("view")
        self.journal = self.make("journal")
        self.store = self.make("store")
        self.ticket_queue = self.make("ticket-queue")
        self.courtesy = self.make("courtesy")
        self.outputs = self.make("outputs")
        self.inputs = self.make("inputs-end")

    def close(self) -> None:
        mine = (self.broker, self.mailbox, self.view, self.journal, self.store, self.ticket_queue)
        for executor in (*mine, self.courtesy, self.outputs, self.inputs):
            executor.close()
