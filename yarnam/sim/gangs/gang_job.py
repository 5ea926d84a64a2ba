"""One job in the simulator: the real gang machine, its actions performed on the model of YARN.

The counterpart of ``am.executor`` and of the agents. An action that cannot occur here stops the run
instead of being dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from yarnam.core.accounting.attained_service import HOLDING
from yarnam.core.gang import RECENT_EVENTS, Gang, initial, policy_for, step
from yarnam.core.gang.state import StopKind
from yarnam.core.model.actions import (
    Action,
    AskContainer,
    CancelTimer,
    CheckNodes,
    DrawJitter,
    Finish,
    LaunchGang,
    PrepareGang,
    ProbeCluster,
    ReleaseContainer,
    RequestPlan,
    ShareStrike,
    StartTimer,
    StopStoring,
    StopTask,
    StoreOutputs,
)
from yarnam.core.model.events import (
    AgentRegistered,
    ContainerEnded,
    ContainerGranted,
    Event,
    JitterDrawn,
    JobStarted,
    NodeChecked,
    OutputsStored,
    StoringFailed,
    TaskExited,
    TaskReady,
    TaskStaged,
    TaskStarted,
    TimerFired,
    TimerId,
)
from yarnam.core.model.ids import AskId, ContainerId
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import (
    ContainerEnd,
    ExitKind,
    NodeMeasures,
    ProcessExit,
    VerdictKind,
)
from yarnam.errors import ExitCode
from yarnam.errors.exhaustive import assert_never
from yarnam.sim.gangs.job_training import JobTraining
from yarnam.sim.gangs.queue_driver import QueueDriver
from yarnam.sim.timeline import Appointment
from yarnam.sim.world import JobRecord, World
from yarnam.sim.yarn_model.containers import Ask, Container
from yarnam.sim.yarn_model.sim_queues import Application

SAVED = frozenset({StopKind.SUSPENDED, StopKind.RESIZED})
"""A gang that is stopped for this writes a checkpoint first."""


class NotSimulated(Exception):
    """The gang machine wants something that this world has no model of."""


class GangJob:
    """The AM, its agents and its processes, from submission to verdict."""

    def __init__(
        self, record: JobRecord, world: World, planning: QueueDriver, training: JobTraining
    ) -> None:
        self.record = record
        self.gang: Gang = initial(record.job.spec)
        # Here a change of size is a restart in any case: what in-place elastic gangs save is not
        # modelled.
        spec = record.job.spec
        self._policy = policy_for(replace(spec, elastic=replace(spec.elastic, restart=True)))
        self._world = world
        self._planning = planning
        self._inbox: deque[Event] = deque()
        self._recent: deque[Event] = deque(maxlen=RECENT_EVENTS)
        self._is_busy = False
        self._timers: dict[TimerId, Appointment] = {}
        self._held: dict[AskId, Container] = {}
        self._running: dict[AskId, int] = {}
        self._training = training
        self._complete: tuple[float, int] | None = None
        """Since when its whole gang has stood in this size, and on how many GPUs."""
        self._app: Application

    def start(self) -> None:
        """Submission and start of the AM are one instant: what YARN takes for that is not
        contention."""
        world = self._world
        job = self.record.job
        self._app = world.rm.register(job.number, job.queue, self)
        world.rm.submit(self._app, job.spec.am.resources, self._begin)

    def _begin(self) -> None:
        self._planning.open(self.deliver)
        self.deliver(JobStarted(self._now_s()))

    def deliver(self, event: Event) -> None:
        """Step the gang once, with its processes' reports before the event. Events that follow
        immediately are stepped after it, as in the AM's loop."""
        if (report := self._planning.report(event)) is not None:
            self._inbox.append(report)
        self._inbox.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        while self._inbox:
            event = self._inbox.popleft()
            if self._world.trace is not None:
                self._world.trace(f"{self.record.job.number} {event!r}")
            before = self.gang
            self.gang, actions = step(self.gang, event, self._policy, self._recent)
            self._recent.append(event)
            self._planning.stepped(before, event, self.gang)
            if self.gang.phase is not before.phase:
                self._note_progress(before.phase)
            self._perform(actions)
        self._is_busy = False

    def granted(self, container: Container) -> None:
        """The RM's answer, with the AM's heartbeat."""
        self._held[container.ask] = container
        nodes = self._world.rm.nodes
        self.deliver(
            ContainerGranted(
                self._now_s(),
                container.ask,
                ContainerId(str(container.number)),
                nodes.names[container.node],
                nodes.racks[container.node],
            )
        )
        if container.ask in self._held:
            self._later(self._world.rm.settings.agent_start_s, lambda: self._register(container))

    def ended(self, container: Container, end: ContainerEnd) -> None:
        """YARN's word that a container is gone, with the AM's heartbeat."""
        if self._held.get(container.ask) is not container:
            return
        del self._held[container.ask]
        self._running.pop(container.ask, None)
        self.deliver(ContainerEnded(self._now_s(), container.ask, end))

    def _note_progress(self, before: Phase) -> None:
        phase, now_s = self.gang.phase, self._now_s()
        if self._complete is not None and phase not in HOLDING:
            self._stood(now_s)
        if phase is Phase.RUNNING:
            self._training.begin(now_s)
        elif before is Phase.RUNNING:
            stopping = self.gang.stopping
            is_saved = stopping is not None and stopping.kind in SAVED
            self._training.stop(now_s, is_saved=is_saved)

    def _stood(self, now_s: float) -> None:
        """Its gang stands no longer, or in another size."""
        assert self._complete is not None
        since_s, gpus = self._complete
        self.record.held.append((since_s, now_s, gpus))
        self._complete = None
        if self._world.on_gpus is not None:
            self._world.on_gpus(now_s, -gpus)

    # ---- actions -----------------------------------------------------------------------------

    def _perform(self, actions: Iterable[Action]) -> None:
        asks: list[Ask] = []
        for action in actions:
            if isinstance(action, AskContainer):
                asks.append(Ask(action.ask, action.target))
                continue
            self._send(asks)
            self._perform_one(action)
        self._send(asks)

    def _send(self, asks: list[Ask]) -> None:
        if asks:
            self.record.asks += len(asks)
            self._world.rm.ask(self._app, asks)
            asks.clear()

    def _perform_one(self, action: Action) -> None:
        match action:
            case RequestPlan():
                self._planning.request(action)
            case ProbeCluster():
                self._planning.probe(action)
            case DrawJitter():
                draw = self._world.dice.random()
                self.deliver(JitterDrawn(self._now_s(), action.attempt, draw))
            case StartTimer():
                self._start_timer(action.timer, action.delay_s)
            case CancelTimer():
                self._cancel_timer(action.timer)
            case ReleaseContainer():
                self._held.pop(action.ask, None)
                self._running.pop(action.ask, None)
                self._world.rm.release(self._app, action.ask)
            case CheckNodes() | PrepareGang() | LaunchGang() | StopTask():
                self._send_to_agents(action)
            case StoreOutputs():
                self.deliver(OutputsStored(self._now_s(), action.attempt, 0, 0))
            case StopStoring():
                code = int(ExitCode.UNAVAILABLE)
                self.deliver(StoringFailed(self._now_s(), action.attempt, code, "stopped"))
            case ShareStrike():
                pass  # A hint to other jobs; here none listens.
            case Finish():
                self._finish(action)
            case _:
                raise NotSimulated(type(action).__name__)

    def _send_to_agents(self, action: CheckNodes | PrepareGang | LaunchGang | StopTask) -> None:
        """Send an order to the agents."""
        match action:
            case CheckNodes():
                # No node is slow here.
                for node in action.nodes:
                    event = NodeChecked(
                        self._now_s(), node.ask, action.attempt, action.check, NodeMeasures()
                    )
                    self.deliver(event)
            case PrepareGang():
                # Inputs are on the nodes immediately: the workloads here do not give their size.
                for member in action.members:
                    self.deliver(TaskStaged(self._now_s(), member.ask, action.attempt))
            case LaunchGang():
                self._launch(action)
            case StopTask():
                self._stop(action.ask, action.attempt)
            case _:
                assert_never(action)

    def _start_timer(self, timer: TimerId, delay_s: float) -> None:
        self._cancel_timer(timer)
        self._timers[timer] = self._world.timeline.after(delay_s, lambda: self._fire(timer))

    def _fire(self, timer: TimerId) -> None:
        self._timers.pop(timer, None)
        self.deliver(TimerFired(self._now_s(), timer))

    def _cancel_timer(self, timer: TimerId) -> None:
        appointment = self._timers.pop(timer, None)
        if appointment is not None:
            appointment.cancel()

    def _finish(self, action: Finish) -> None:
        self.record.ended_s = self._now_s()
        self.record.is_failed = action.verdict.kind is not VerdictKind.SUCCEEDED
        self.record.reason = action.verdict.message if self.record.is_failed else ""
        self.record.attempts = len(self.gang.history)
        self.record.preemptions = self.gang.retries.preemptions
        self._planning.finished()
        if self._world.on_end is not None:
            self._world.on_end(self.record)
        # The releases of this very step go out with the AM's last heartbeat.
        self._world.timeline.after(
            self._world.rm.settings.am_heartbeat_s * 2, lambda: self._world.rm.unregister(self._app)
        )

    # ---- agents and processes ----------------------------------------------------------------

    def _register(self, container: Container) -> None:
        if self._held.get(container.ask) is not container:
            return
        nodes = self._world.rm.nodes
        self.deliver(
            AgentRegistered(
                self._now_s(),
                container.ask,
                ContainerId(str(container.number)),
                nodes.names[container.node],
                address=nodes.names[container.node],
                gpu_ids=(),
                ports=(),
            )
        )

    def _launch(self, action: LaunchGang) -> None:
        held = [self._held[member.ask] for member in action.members if member.ask in self._held]
        gpus = sum(container.resources.gpus for container in held)
        if all(self._running.get(member.ask) != action.attempt for member in action.members):
            self._note_complete(action, gpus)
        now = [
            member.ask
            for member in action.members
            if member.ask not in action.waiting and self._running.get(member.ask) != action.attempt
        ]
        starts: list[float] = []
        for ask in now:
            delay_s = self._draw(self._world.rm.settings.task_start_s)
            starts.append(delay_s)
            self._running[ask] = action.attempt
            self._world.timeline.after(delay_s, lambda ask=ask: self._started(ask))  # type: ignore[misc]
        if action.waiting:
            return
        end_s = max(starts, default=0.0) + self._training.launched(gpus)
        services = self.record.job.spec.services
        for member in action.members:
            if member.ask.role not in services:
                self._world.timeline.after(
                    end_s,
                    lambda ask=member.ask: self._exited(ask, action.attempt, ExitKind.OK),  # type: ignore[misc]
                )

    def _note_complete(self, action: LaunchGang, gpus: int) -> None:
        """The gang is complete: remember where."""
        containers, now_s = [self._held[member.ask] for member in action.members], self._now_s()
        if self._world.keeps_past:
            self._world.stood[self.record.job.number, action.attempt] = now_s
        if self._complete is not None and self._complete[1] != gpus:
            self._stood(now_s)
            self.record.resizes += 1
        if self._complete is None:
            self._complete = now_s, gpus
            if self._world.on_gpus is not None:
                self._world.on_gpus(now_s, gpus)
        if self.record.stood_s is None:
            self.record.stood_s = now_s
        self.record.nodes = len({container.node for container in containers})
        racks = self._world.rm.nodes.racks
        self.record.racks = len({racks[container.node] for container in containers})

    def _started(self, ask: AskId) -> None:
        if ask in self._running:
            attempt = self._running[ask]
            self.deliver(TaskStarted(self._now_s(), ask, attempt))
            if any(role.after for role in self.record.job.spec.roles):
                self.deliver(TaskReady(self._now_s(), ask, attempt))

    def _exited(self, ask: AskId, attempt: int, kind: ExitKind) -> None:
        if self._running.get(ask) != attempt:
            return
        del self._running[ask]
        roles = {role.name: role for role in self.record.job.spec.roles}
        processes = roles[ask.role].processes_per_task
        now_s = self._now_s()
        exits = tuple(ProcessExit(rank, kind, ended_at_s=now_s) for rank in range(processes))
        self.deliver(TaskExited(now_s, ask, attempt, exits))

    def _stop(self, ask: AskId, attempt: int) -> None:
        self._world.timeline.after(0.5, lambda: self._exited(ask, attempt, ExitKind.STOPPED))

    def _now_s(self) -> float:
        return self._world.timeline.now_s

    def _draw(self, bounds: tuple[float, float]) -> float:
        return self._world.dice.uniform(*bounds)

    def _later(self, bounds: tuple[float, float], call: object) -> None:
        assert callable(call)
        self._world.timeline.after(self._draw(bounds), call)
