"""The state that all jobs of one run share, and their records."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from yarnam.core.admission import QueueSnapshot
from yarnam.core.model.tickets import Ticket
from yarnam.core.placement.packing.index_memory import IndexMemory
from yarnam.sim.poll_batch import PollBatch
from yarnam.sim.sim_settings import SimJob
from yarnam.sim.sim_tickets import SimTicketQueue
from yarnam.sim.timeline import Timeline
from yarnam.sim.yarn_model.resource_manager import SimResourceManager

Trace = Callable[[str], None]
"""Takes one line for each event of each job."""


OnWait = Callable[[SimJob, Ticket, QueueSnapshot], "float | None"]
"""Takes a job, its ticket, and what its ApplicationMaster sees; returns ``Ticket.forecast_s``."""


@dataclass(slots=True)
class JobRecord:
    """The history of one job. Virtual seconds; ``None`` if it never got that far."""

    job: SimJob
    stood_s: float | None = None
    """When its whole gang stood for the first time: the barrier opened."""
    ended_s: float | None = None
    is_failed: bool = False
    attempts: int = 0
    asks: int = 0
    nodes: int = 0
    """On how many nodes it ran."""
    racks: int = 0
    held: list[tuple[float, float, int]] = field(default_factory=list[tuple[float, float, int]])
    """The periods in which its whole gang stood, in each size, and its GPUs."""
    resizes: int = 0
    """Changes of the size of a gang that stood."""
    preemptions: int = 0
    """Attempts that ended because YARN took containers."""
    reason: str = ""

    @property
    def wait_s(self) -> float | None:
        return None if self.stood_s is None else self.stood_s - self.job.submit_s


@dataclass(slots=True)
class World:
    """One run's clock, dice, YARN and ticket tickets. Every draw comes from ``dice``, in the order
    of the timeline."""

    timeline: Timeline
    dice: random.Random
    rm: SimResourceManager
    tickets: SimTicketQueue
    trace: Trace | None = None
    checkpoint_s: float = 600.0
    on_end: Callable[[JobRecord], None] | None = None
    """Called whenever a job has ended."""
    on_gpus: Callable[[float, int], None] | None = None
    """Called whenever gangs that stand have this many GPUs more, or fewer: when, and how many."""
    on_wait: OnWait | None = None
    """Called with a job's first decision to wait."""
    start_cost_s: float = 0.0
    indexes: IndexMemory = field(default_factory=IndexMemory)
    """The indexes of the nodes, for the plans of all jobs."""
    keeps_past: bool = True
    stood: dict[tuple[int, int], float] = field(default_factory=dict)
    """When the gang of (job, attempt) stood; empty unless it ``keeps_past``."""
    has_policy: bool = False
    """The queues have a policy."""
    poll_batch: PollBatch = field(init=False)

    def __post_init__(self) -> None:
        self.poll_batch = PollBatch(
            self.timeline, self.rm, self.tickets, has_policy=self.has_policy
        )
