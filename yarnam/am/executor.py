"""From actions to port calls: one exhaustive ``match``, in the order the machine gave them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType

from yarnam.am.output_storer import OutputStorer, storing_text
from yarnam.am.plan_service import PlanService
from yarnam.am.serial_executor import SerialExecutor
from yarnam.core.model.actions import (
    Action,
    AdoptGang,
    AskContainer,
    CancelPlanRequest,
    CancelTimer,
    CheckNodes,
    DrawJitter,
    Finish,
    LaunchGang,
    PrepareGang,
    ProbeCluster,
    ReleaseContainer,
    ReleaseKept,
    RequestPlan,
    ShareStrike,
    StartTimer,
    StopStoring,
    StopTask,
    StoreOutputs,
)
from yarnam.core.model.events import BrokerFailed, JitterDrawn
from yarnam.core.model.ids import AskId
from yarnam.core.model.outcomes import Verdict
from yarnam.errors import YarnamError
from yarnam.errors.exhaustive import assert_never
from yarnam.ports import Clock, ContainerBroker, Inbox, NodeHints, TaskMailbox

log = logging.getLogger("yarnam.am")


@dataclass(frozen=True, slots=True)
class Executor:
    """Performs actions. ``draw`` gives uniform numbers in [0, 1)."""

    broker: ContainerBroker
    mailbox: TaskMailbox
    clock: Clock
    planning: PlanService
    inbox: Inbox
    draw: Callable[[], float]
    broker_executor: SerialExecutor
    mailbox_executor: SerialExecutor
    hints: NodeHints
    courtesy_executor: SerialExecutor
    """Background tasks that nothing waits for."""
    storing: OutputStorer
    _under_way: set[asyncio.Task[None]] = field(default_factory=set)
    _names: dict[AskId, str] = field(default_factory=dict)

    async def perform(self, actions: Iterable[Action]) -> Verdict | None:
        """The verdict when the gang has finished; the loop does the rest."""
        verdict = None
        for _, group in groupby(actions, key=type):
            batch = list(group)
            for action in batch:
                if isinstance(action, LaunchGang):
                    self._names.update((one.ask, str(one.task)) for one in action.members)
                log.info("%s", action_text(action, self._names))
            verdict = await self._perform(batch) or verdict
        return verdict

    async def _perform(self, batch: Sequence[Action]) -> Verdict | None:
        """``batch``: actions of one kind in a row. Asks and releases go out together."""
        first = batch[0]
        match first:
            case AskContainer():
                await self._ask([action for action in batch if isinstance(action, AskContainer)])
            case ReleaseContainer():
                await self._release([a for a in batch if isinstance(a, ReleaseContainer)])
            case _:
                for action in batch:
                    verdict = await self._perform_one(action)
                    if verdict is not None:
                        return verdict
        return None

    async def _perform_one(self, action: Action) -> Verdict | None:
        match action:
            case AskContainer():
                await self._ask([action])
            case ReleaseContainer():
                await self._release([action])
            case RequestPlan() | CancelPlanRequest() | ProbeCluster():
                self._plan(action)
            case DrawJitter():
                self.inbox(JitterDrawn(self.clock.now_s(), action.attempt, self.draw()))
            case StartTimer() | CancelTimer():
                self._move_timer(action)
            case CheckNodes() | PrepareGang() | LaunchGang():
                await self._to_the_barrier(action)
            case AdoptGang() | ReleaseKept():
                await self._take_over(action)
            case StoreOutputs() | StopStoring():
                self.storing.perform(action)
            case StopTask():
                await self.mailbox_executor.call(
                    lambda: self.mailbox.stop(
                        action.ask,
                        action.attempt,
                        action.grace_s,
                        action.reason,
                        action.idle_grace_s,
                        action.agreeing,
                    )
                )
            case ShareStrike():
                self._aside(lambda: self.hints.share(action.node, action.reason))
            case Finish():
                return action.verdict
            case _:
                assert_never(action)
        return None

    def _plan(self, action: RequestPlan | CancelPlanRequest | ProbeCluster) -> None:
        match action:
            case RequestPlan():
                self.planning.request(action)
            case CancelPlanRequest():
                self.planning.close()
            case ProbeCluster():
                self.planning.probe(action, self.draw())

    async def _to_the_barrier(self, action: CheckNodes | PrepareGang | LaunchGang) -> None:
        if isinstance(action, CheckNodes):
            await self.mailbox_executor.call(lambda: self.mailbox.check(action))
            return
        attempt, members = action.attempt, action.members
        if isinstance(action, PrepareGang):
            await self.mailbox_executor.call(lambda: self.mailbox.prepare(attempt, members))
            return
        waiting = action.waiting
        await self.storing.prepare(action)
        await self.mailbox_executor.call(lambda: self.mailbox.launch(attempt, members, waiting))

    async def _take_over(self, action: AdoptGang | ReleaseKept) -> None:
        if isinstance(action, ReleaseKept):
            kept = action.containers
            await self._on_broker("releasing", lambda: self.broker.release_kept(kept))
            return
        await self.mailbox_executor.call(lambda: self.mailbox.adopt(action))
        await self._on_broker("adopting containers", lambda: self.broker.adopt(action.tasks))

    def _move_timer(self, action: StartTimer | CancelTimer) -> None:
        if isinstance(action, StartTimer):
            self.clock.start_timer(action.timer, action.delay_s)
        else:
            self.clock.cancel_timer(action.timer)

    async def _ask(self, asks: Sequence[AskContainer]) -> None:
        await self.mailbox_executor.call(lambda: self.mailbox.expect([ask.ask for ask in asks]))
        await self._on_broker("asking for containers", lambda: self.broker.ask(asks))

    async def _release(self, releases: Sequence[ReleaseContainer]) -> None:
        """Tells the agent before YARN: it leaves within milliseconds, a kill through YARN takes a
        second."""
        asks = [release.ask for release in releases]
        await self.dismiss(asks)
        await self._on_broker("releasing containers", lambda: self.broker.release(asks))

    async def dismiss(self, asks: Sequence[AskId]) -> None:
        if asks:
            await self.mailbox_executor.call(lambda: self.mailbox.dismiss(asks))

    def _aside(self, call: Callable[[], None]) -> None:
        """Helps other jobs only: this job neither waits for it nor depends on it."""
        task = asyncio.get_running_loop().create_task(self._courteously(call))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _courteously(self, call: Callable[[], None]) -> None:
        try:
            await self.courtesy_executor.call(call)
        except Exception:
            log.exception("could not notify other jobs")

    async def _on_broker(self, doing: str, call: Callable[[], None]) -> None:
        try:
            await self.broker_executor.call(call)
        except YarnamError as error:
            log.error("%s: %s", doing, error.message)
            self.inbox(BrokerFailed(self.clock.now_s(), f"{doing}: {error.message}"))


def _kept_text(action: AdoptGang | ReleaseKept) -> str:
    if isinstance(action, AdoptGang):
        return f"adopt {len(action.tasks)} tasks of attempt {action.attempt}"
    return f"release {len(action.containers)} containers of an earlier AM attempt"


def _planning_text(action: RequestPlan | CancelPlanRequest | ProbeCluster) -> str:
    match action:
        case RequestPlan():
            return f"plan attempt {action.attempt} from rung {action.first_rung} on"
        case CancelPlanRequest():
            return f"no plan of attempt {action.attempt} is wanted any more"
        case ProbeCluster():
            return f"probe whether {sum(ask.count for ask in action.growth.wanted)} more tasks fit"


def action_text(action: Action, names: Mapping[AskId, str] = MappingProxyType({})) -> str:
    """One line for the log. ``names`` are those of the tasks that have been launched."""
    match action:
        case RequestPlan() | CancelPlanRequest() | ProbeCluster():
            text = _planning_text(action)
        case DrawJitter():
            text = f"draw the back-off of attempt {action.attempt}"
        case AskContainer():
            target = action.target
            where = f"{target.service} ({target.level.name}, {target.resources})"
            text = f"ask for {action.ask.words}: {where}"
        case ReleaseContainer():
            text = f"release {names.get(action.ask, action.ask.words)}: {action.reason}"
        case StartTimer() | CancelTimer():
            state = f"{action.delay_s:.1f} s" if isinstance(action, StartTimer) else "cancelled"
            text = f"timer {action.timer}: {state}"
        case CheckNodes() | PrepareGang() | LaunchGang():
            text = barrier_text(action)
        case AdoptGang() | ReleaseKept():
            text = _kept_text(action)
        case StopTask():
            task = names.get(action.ask, action.ask.words)
            text = f"stop {task} within {action.grace_s:.0f} s: {action.reason}"
        case StoreOutputs() | StopStoring():
            text = storing_text(action)
        case ShareStrike():
            text = f"report to other jobs a strike against {action.node}: {action.reason}"
        case Finish():
            verdict = action.verdict
            text = f"finish {verdict.kind.value} ({verdict.exit_code}): {verdict.message}"
        case _:
            assert_never(action)
    return text


def barrier_text(action: CheckNodes | PrepareGang | LaunchGang) -> str:
    """What all members are to do together."""
    if isinstance(action, CheckNodes):
        where = ", ".join(judged.node for judged in action.nodes)
        return f"check {action.check} of nodes, at most {action.limit_s:.0f} s: {where}"
    waiting = action.waiting if isinstance(action, LaunchGang) else ()
    starting = [member for member in action.members if member.ask not in waiting]
    places = ", ".join(f"{m.task} on {m.placed.node}" for m in starting)
    places += f"; {len(waiting)} wait for them" if waiting else ""
    what = "inputs for" if isinstance(action, PrepareGang) else "launch"
    return f"{what} attempt {action.attempt}: {places}"
