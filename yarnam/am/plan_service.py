"""Answers ``RequestPlan``: a fresh snapshot, the planner, an event. Never blocks the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from hdfs_utils.concurrency.retry import Backoff, retry_async
from yarnam.am.am_settings import AmSettings
from yarnam.am.probes.growth_probe import GrowthProbe, Waiters
from yarnam.am.queue_client_shell import QueueClientShell
from yarnam.am.serial_executor import SerialExecutor
from yarnam.core.model.actions import ProbeCluster, RequestPlan
from yarnam.core.model.events import Event, PlanReady, PlanRefused
from yarnam.core.model.ids import NodeId
from yarnam.core.model.plans import NoFit, PlacementPlan, Reason
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.core.placement.job_view import excluded_nodes
from yarnam.core.placement.plan_request import needs_admission, plan_request
from yarnam.core.placement.prelaunch import with_prelaunched_first
from yarnam.core.queue_client.cluster_poll import ClusterPoll, PlanOutcome
from yarnam.errors import Unavailable
from yarnam.ports import Clock, ClusterView, Inbox
from yarnam.wire.records import JobRecord

log = logging.getLogger("yarnam.am")

Sleep = Callable[[float], Awaitable[None]]


class PlanService:
    """Handles one request at a time: a newer one ends the waiting of an older one."""

    def __init__(
        self,
        record: JobRecord,
        view: ClusterView,
        executor: SerialExecutor,
        clock: Clock,
        inbox: Inbox,
        settings: AmSettings,
        sleep: Sleep = asyncio.sleep,
        waiters: Waiters = tuple,
        queue: QueueClientShell | None = None,
        open_checks: Callable[[], int] = lambda: 0,
    ) -> None:
        """``open_checks``: how many inputs that processes have reported are not checked yet."""
        self._record = record
        self._view = view
        self._executor = executor
        self._clock = clock
        self._inbox = inbox
        self._settings = settings
        self._sleep = sleep
        self._queue = queue
        self._open_checks = open_checks
        self._task: asyncio.Task[None] | None = None
        self._growth = GrowthProbe(record, view, executor, clock, inbox, waiters)
        self._took_s = 0.0
        """Seconds that the last snapshot took."""
        self.trouble = ""
        """Why there is no answer yet, for the status line."""

    def request(self, action: RequestPlan) -> None:
        self.close()
        self._task = asyncio.get_running_loop().create_task(self._reply(action))

    def probe(self, action: ProbeCluster, u: float) -> None:
        """Sends ``ClusterSeen``, also when the ResourceManager does not answer."""
        self._growth.request(action, u)

    def close(self) -> None:
        self._growth.close()
        self.trouble = ""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _reply(self, action: RequestPlan) -> None:
        outcome: PlacementPlan | NoFit
        nodes = 0
        try:
            if action.supplement is None:
                await self._await_checks()
            polled, outcome = await self._find(action)
            nodes = sum(node.is_usable for node in polled.snapshot.nodes)
        except Unavailable as error:
            outcome = NoFit(Reason.RM_UNREACHABLE, is_never=False, message=error.message)
        except Exception as error:
            # A fault of the planner must not leave the gang waiting forever for an answer.
            log.exception("the planner failed")
            outcome = NoFit(Reason.RM_UNREACHABLE, is_never=False, message=f"internal: {error!r}")
        self.trouble = ""
        self._inbox(self._event(outcome, action, nodes))

    async def _await_checks(self) -> None:
        """A gang that is acquired anew starts without the files that are proved corrupt by then."""
        ends_at_s = self._clock.now_s() + self._settings.check_patience_s
        while count := self._open_checks():
            left_s = ends_at_s - self._clock.now_s()
            if left_s <= 0:
                log.warning("going on although %d inputs are not checked yet", count)
                break
            inputs = "1 input is" if count == 1 else f"{count} inputs are"
            self.trouble = f"{inputs} being checked for damage ({left_s:.0f} s at most)"
            await self._sleep(min(self._settings.retry_pause_s, left_s))
        self.trouble = ""

    async def _find(self, action: RequestPlan) -> tuple[ClusterPoll, PlanOutcome]:
        """Waits for admission where the gang ``needs_admission``."""

        async def poll(max_age_s: float | None = None) -> ClusterPoll:
            return await self._poll(action, max_age_s)

        if self._queue is None:
            polled = await poll()
            return polled, polled.outcome
        return await self._queue.admitted(
            poll, needs_admission=needs_admission(self._record.job, action)
        )

    async def _poll(self, action: RequestPlan, max_age_s: float | None) -> ClusterPoll:
        asked_at_s = self._clock.now_s()
        snapshot = await self._snapshot(max_age_s)

        def plan(
            avoid: tuple[NodeId, ...] = (), *, blind: bool | None = None
        ) -> PlacementPlan | NoFit:
            return self._plan(snapshot, action, avoid, blind=blind)

        began_s = self._clock.now_s()
        outcome = await self._executor.call(plan)
        took_s = self._took_s + self._clock.now_s() - began_s

        def planned(
            avoid: tuple[NodeId, ...] = (), *, blind: bool = False
        ) -> PlacementPlan | NoFit:
            return plan(avoid, blind=blind or None) if avoid or blind else outcome

        excluded = excluded_nodes(snapshot, self._record.job, action.excluded)
        refusal = outcome if isinstance(outcome, NoFit) else None
        return ClusterPoll(
            snapshot, planned, refusal is None, refusal, excluded, asked_at_s=asked_at_s,
            took_s=took_s,
        )  # fmt: skip

    def _plan(
        self,
        snapshot: ClusterSnapshot,
        action: RequestPlan,
        avoid: tuple[NodeId, ...] = (),
        *,
        blind: bool | None = None,
    ) -> PlacementPlan | NoFit:
        record = self._record
        outcome = plan_request(
            snapshot,
            record.job,
            record.targets,
            action,
            also_excluded=avoid,
            blind=blind,
            data=record.data,
            seed=record.key,
        )
        if isinstance(outcome, NoFit) or action.attempt > 1 or not record.prelaunched:
            return outcome
        return with_prelaunched_first(outcome, record.prelaunched)

    def moved(self, record: JobRecord) -> None:
        """Takes the job in another queue."""
        self._record = record
        self._growth.moved(record)

    def _event(self, outcome: PlacementPlan | NoFit, action: RequestPlan, nodes: int) -> Event:
        now_s = self._clock.now_s()
        if isinstance(outcome, NoFit):
            return PlanRefused(now_s, action.attempt, outcome, nodes)
        return PlanReady(now_s, action.attempt, outcome, nodes)

    async def _snapshot(self, max_age_s: float | None) -> ClusterSnapshot:
        """Retried with back-off while the ResourceManager does not answer."""
        settings, queue = self._settings, self._record.job.queue

        def note(error: Unavailable, spent_s: float) -> None:
            left_s = settings.plan_patience_s - spent_s
            self.trouble = f"the ResourceManager does not answer ({left_s:.0f} s of patience)"
            log.warning("%s: %s", self.trouble, error.message)

        async def snapshot() -> ClusterSnapshot:
            began_s = self._clock.now_s()
            taken = await self._executor.call(
                lambda: self._view.snapshot(queue, max_age_s=max_age_s)
            )
            self._took_s = self._clock.now_s() - began_s
            return taken

        taken = await retry_async(
            snapshot,
            settings.plan_patience_s,
            is_retriable=lambda error: isinstance(error, Unavailable),
            on_failure=note,
            # Whoever goes by the snapshots of others lets them ask first: 1,000 jobs would meet a
            # ResourceManager that has just started with 200 calls a second.
            backoff=Backoff(
                max(settings.plan_retry_first_s, (max_age_s or 0.0) / 4),
                max(settings.plan_retry_cap_s, max_age_s or 0.0),
            ),
            sleep=self._sleep,
            now_s=self._clock.now_s,
        )
        self.trouble = ""
        return taken
