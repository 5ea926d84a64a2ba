"""The settings of one run of the ideal model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from yarnam.core.policies.gpu_nodes import Packing
from yarnam.core.policies.policy_settings import Settings
from yarnam.sim.ideal.trace_job import TraceJob
from yarnam.sim.sim_settings import SCALING


class Overhead(Enum):
    """The cost of suspending and starting."""

    NONE = "none"
    RESTART = "restart"
    """Each start takes this long before anything is trained."""
    EVERY_EVENT = "every-event"
    """At every event each running job loses this share of the time since the last one, whether it
    was stopped or not, as in Muri's public simulator."""


class Instant(Enum):
    """The order of ends and arrivals at one instant."""

    TOGETHER = "together"
    """All ends and arrivals, then one decision."""
    ONE_BY_ONE = "one-by-one"
    """Arrivals before ends, each with its own decision, as simulators of batch systems do it; gangs
    that end as declared have ended before either."""


class RunTimes(Enum):
    """The run times of jobs that a policy knows."""

    TRUE = "true"
    DECLARED = "declared"
    UNKNOWN = "nothing"


OverheadOf = Callable[[TraceJob], float]


@dataclass(frozen=True, slots=True)
class IdealSettings:
    """The settings of one run. ``nodes`` gives the GPUs and cores of each node; if it is empty,
    ``gpus`` are only counted."""

    policy: str
    gpus: int
    settings: Settings
    nodes: tuple[tuple[int, int], ...] = ()
    packing: Packing = Packing.FIRST
    moves_freely: bool = False
    overhead: Overhead = Overhead.NONE
    overhead_of: OverheadOf = field(default=lambda _job: 0.0)
    instant: Instant = Instant.TOGETHER
    run_times: RunTimes = RunTimes.TRUE
    scaling: float = SCALING
    """The relative speed of elastic gangs (``relative_speed``)."""
    steps_per_s: float = 1.0
    """The steps per second of every job, on its own GPUs: for policies that count steps."""
