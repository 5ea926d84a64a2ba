"""A model of other systems: ask for all containers together, keep each one that comes, start when
the gang is complete (peers.md, 1; TonY, tf-yarn, raw Skein). hbox adds a limit after which the job
fails."""

from __future__ import annotations

from yarnam.core.model.ids import AskId
from yarnam.core.model.outcomes import ContainerEnd
from yarnam.core.model.plans import LocalityLevel, Target
from yarnam.sim.timeline import Appointment
from yarnam.sim.world import JobRecord, World
from yarnam.sim.yarn_model.containers import Ask, Container
from yarnam.sim.yarn_model.sim_queues import Application

HBOX_LIMIT_S = 600.0
"""hbox waits ``yarn.resourcemanager.rm.container-allocation.expiry-interval-ms``, 10 min, from the
first container on; then the job fails: "Please resubmit !" (peers.md, 1.5)."""


class HoldJob:
    """One job that asks and holds. ``limit_s`` None: for ever."""

    def __init__(self, record: JobRecord, world: World, limit_s: float | None) -> None:
        self.record = record
        self._world = world
        self._limit_s = limit_s
        self._limit: Appointment | None = None
        self._held: list[Container] = []
        self._is_over = False
        self._app: Application

    def start(self) -> None:
        job = self.record.job
        self._app = self._world.rm.register(job.number, job.queue, self)
        self._world.rm.submit(self._app, job.spec.am.resources, self._ask)

    def _ask(self) -> None:
        job = self.record.job
        self.record.attempts = 1
        role = job.spec.roles[0]
        target = Target(
            "any", role.name, LocalityLevel.ANY, role.resources, role.processes_per_task
        )
        self._wanted = role.tasks
        asks = [Ask(AskId(1, role.name, number), target) for number in range(role.tasks)]
        self.record.asks = len(asks)
        self._world.rm.ask(self._app, asks)

    def granted(self, container: Container) -> None:
        if self._is_over:
            return
        self._held.append(container)
        if self._limit is None and self._limit_s is not None:
            self._limit = self._world.timeline.after(self._limit_s, self._fail)
        if len(self._held) < self._wanted:
            return
        if self._limit is not None:
            self._limit.cancel()
        start_s = self._world.dice.uniform(*self._world.rm.settings.agent_start_s)
        self._world.timeline.after(start_s, self._launch)

    def ended(self, container: Container, end: ContainerEnd) -> None:
        """A lost container is not replaced: the job has failed."""
        if not self._is_over:
            self.record.is_failed = True
            self.record.reason = f"a container was {end.value}"
            self._end()

    def _launch(self) -> None:
        now_s = self._world.timeline.now_s
        self.record.stood_s = now_s
        if self._world.keeps_past:
            self._world.stood[self.record.job.number, 1] = now_s
        self.record.nodes = len({container.node for container in self._held})
        racks = self._world.rm.nodes.racks
        self.record.racks = len({racks[container.node] for container in self._held})
        start_s = self._world.dice.uniform(*self._world.rm.settings.task_start_s)
        self._world.timeline.after(start_s + self.record.job.duration_s, self._end)

    def _fail(self) -> None:
        self.record.is_failed = True
        self.record.reason = f"not complete {self._limit_s:.0f} s after its first container"
        self._end()

    def _end(self) -> None:
        self._is_over = True
        self.record.ended_s = self._world.timeline.now_s
        self._world.rm.unregister(self._app)
