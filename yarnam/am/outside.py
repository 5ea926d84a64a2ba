"""The outside world of an ApplicationMaster: its ports, and one lane of work for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from yarnam.am.lanes import Lane, ThreadLane
from yarnam.am.looking import Waiters
from yarnam.am.planning import Sleep
from yarnam.model.ids import NodeId
from yarnam.ports import (
    Clock,
    ClusterView,
    ContainerBroker,
    Inbox,
    Journal,
    NodeHints,
    NoNodeHints,
    StateStore,
    StatusDesk,
    TaskMailbox,
)
from yarnam.ports.outputs import OutputStore
from yarnam.ports.tickets import TicketOffice

if TYPE_CHECKING:
    # Loaded for jobs that have inputs.
    from yarnam.am.inputs import DataWays


@dataclass(frozen=True, slots=True)
class AmPorts:
    """The outside world of one AM attempt."""

    clock: Callable[[Inbox], Clock]
    broker: ContainerBroker
    view: ClusterView
    mailbox: TaskMailbox
    journal: Journal
    store: StateStore
    desk: StatusDesk
    draw: Callable[[], float]
    sleep: Sleep = asyncio.sleep
    lane: Callable[[str], Lane] = ThreadLane
    hints: NodeHints = field(default_factory=NoNodeHints)
    waiters: Waiters = tuple
    """Who waits for GPUs, asked before the gang grows by itself."""
    learn: Callable[[NodeId, str], None] = lambda node, model: None
    """Keeps the GPU model that an agent has seen on a node. May block like a port."""
    office: Callable[[], TicketOffice] | None = None
    """Makes it, in a thread; None: there is no ZooKeeper."""
    outputs: OutputStore | None = None
    """None: the job has no outputs."""
    data: DataWays | None = None
    """None: the job has no inputs."""


@dataclass(slots=True)
class Lanes:
    """One per port; the progress has its own, so that it never delays an ask."""

    make: Callable[[str], Lane]
    broker: Lane = field(init=False)
    mailbox: Lane = field(init=False)
    view: Lane = field(init=False)
    journal: Lane = field(init=False)
    store: Lane = field(init=False)
    office: Lane = field(init=False)
    courtesy: Lane = field(init=False)
    outputs: Lane = field(init=False)
    inputs: Lane = field(init=False)

    def __post_init__(self) -> None:
        self.broker = self.make("broker")
        self.mailbox = self.make("mailbox-calls")
        self.view = self.make("view")
        self.journal = self.make("journal")
        self.store = self.make("store")
        self.office = self.make("office")
        self.courtesy = self.make("courtesy")
        self.outputs = self.make("outputs")
        self.inputs = self.make("inputs-end")

    def close(self) -> None:
        mine = (self.broker, self.mailbox, self.view, self.journal, self.store, self.office)
        for lane in (*mine, self.courtesy, self.outputs, self.inputs):
            lane.close()
