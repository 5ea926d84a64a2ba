"""One Protocol per thing of the outside world. Adapters implement them; fakes stand in for tests.

All calls are synchronous and may block for at most the limit each one names; the AM's loop runs
them in threads. Errors are ``yarnam.errors``: adapters chain what they caught.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.model.actions import (
    AdoptedTask,
    AdoptGang,
    AskContainer,
    CheckNodes,
    GangMember,
)
from yarnam.core.model.events import Event, TimerId
from yarnam.core.model.ids import AskId, ContainerId, NodeId
from yarnam.core.model.metrics import AgentMetrics
from yarnam.core.model.outcomes import Verdict
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.errors import InternalError

Inbox = Callable[[Event], None]
"""Where adapters put events; thread-safe, never blocks."""


class Superseded(InternalError):
    """A newer AM attempt has taken over the job's journal and records: stop, touch nothing."""


class Clock(Protocol):
    """Wall clock and timers. Timers come back as ``TimerFired`` in the inbox."""

    def now_s(self) -> float:
        """Seconds since the epoch."""

    def start_timer(self, timer: TimerId, delay_s: float) -> None:
        """Starting a timer again moves it."""

    def cancel_timer(self, timer: TimerId) -> None:
        """Cancelling one that is not there is harmless."""


class ContainerBroker(Protocol):
    """The way to YARN. Grants and ends arrive in the inbox as events."""

    def start(self, inbox: Inbox) -> Sequence[ContainerId]:
        """Begin to report events. Returns the containers of earlier AM attempts that YARN has
        kept, after at most 10 s."""

    def adopt(self, tasks: Sequence[AdoptedTask]) -> None:
        """Report how the containers of these tasks end, also of those that YARN has not kept, and
        let them be released by their asks."""

    def release_kept(self, containers: Sequence[ContainerId]) -> None:
        """Give back containers that YARN has kept and nothing has adopted. Best effort."""

    def ask(self, asks: Sequence[AskContainer]) -> None:
        """Ask for containers. Asking twice for one AskId asks once. At most 10 s."""

    def release(self, asks: Sequence[AskId]) -> None:
        """Withdraw or release; unknown and ended ones are harmless. A grant that arrives later for
        a released ask is released immediately and not reported. At most 10 s."""

    def set_progress(self, fraction: float) -> None:
        """Show the job's progress, in [0, 1], in YARN's own pages. Best effort."""

    def shutdown(self, verdict: Verdict) -> None:
        """End the application with this verdict; all containers go. At most 30 s."""


class ClusterView(Protocol):
    """The ResourceManager's view of the cluster."""

    def snapshot(self, queue: str, *, max_age_s: float | None = None) -> ClusterSnapshot:
        """Nodes and the queue. At most 10 s. Raises Unavailable.

        Args:
            queue: its full name.
            max_age_s: ``None`` for a new snapshot. With a number, waiting jobs share their
                snapshots if they have a place for them: one that another job took (``is_shared``)
                will do if it is at most this old; otherwise a new one is taken and published.
        """


@dataclass(frozen=True, slots=True)
class AgentStaging:
    """An agent's last report of its progress with its task's inputs. Sizes in bytes; ``left_s`` is
    ``None`` if unknown."""

    ask: AskId
    files: int
    files_done: int
    size: int
    done: int
    cached: int
    left_s: float | None = None
    trouble: str = ""
    """Why it does not continue now."""


class TaskMailbox(Protocol):
    """The AM's side of the conversation with the agents. Reports arrive in the inbox as events;
    directives are desired states, so giving one twice is harmless."""

    def start(self, inbox: Inbox) -> str:
        """Listen; returns host:port at which agents reach this mailbox."""

    def expect(self, asks: Iterable[AskId]) -> None:
        """Accept agents of these asks; all others get a LEAVE directive."""

    def adopt(self, action: AdoptGang) -> None:
        """Continue the conversation of the earlier AM attempt with the agents of these tasks, each
        in its own container. One that has not called after 30 s is reported as silent."""

    def check(self, action: CheckNodes) -> None:
        """Tell one agent of each node to measure it. Answered by ``NodeChecked``."""

    def prepare(self, attempt: int, members: Sequence[GangMember]) -> None:
        """Tell each member to fetch what its processes will read; the ranks are those of the
        launch that follows. Answered by ``TaskStaged``."""

    def launch(
        self, attempt: int, members: Sequence[GangMember], waiting: Collection[AskId] = ()
    ) -> None:
        """Order each member to start its processes with the ranks that follow from the order,
        except those that are ``waiting``: a later call orders these."""

    def stop(
        self,
        ask: AskId,
        attempt: int,
        grace_s: float,
        reason: str,
        idle_grace_s: float | None = None,
        agreeing: int = 0,
    ) -> None:
        """Tell the agent to stop its processes. As ``StopTask``."""

    def dump(self, asks: Iterable[AskId], attempt: int) -> None:
        """Tell these agents to dump the stacks of their processes: ``activity`` has them then."""

    def dismiss(self, asks: Iterable[AskId]) -> None:
        """Tell these agents to stop and leave; later calls from them get the same answer."""

    def drain(self, limit_s: float) -> int:
        """Wait until every dismissed agent that ever called has fetched its order to leave, at
        most ``limit_s``; returns how many have not."""

    def metrics(self) -> Sequence[AgentMetrics]:
        """The newest report of each rank."""

    def activity(self) -> Sequence[RankActivity]:
        """Each process of the newest launch that has been heard of."""

    def staging(self) -> Sequence[AgentStaging]:
        """The newest report of each agent that brings inputs to its node, also of those that are
        dismissed by now."""

    def close(self) -> None:
        """Stop listening. At most 5 s."""


class NodeHints(Protocol):
    """Hints about nodes between jobs, if there is a place for them (ZooKeeper). Best effort in both
    directions: a lost hint costs one attempt, no more. Never raises."""

    def start(self, inbox: Inbox) -> None:
        """Begin to report other jobs' strikes as ``NodesSuspected``: those there are, then each
        change. Not this job's own, and none older than they say. Returns immediately."""

    def share(self, node: NodeId, reason: str) -> None:
        """Tell the other jobs of a strike by this one; again makes it fresh. At most 5 s."""

    def close(self) -> None:
        """Idempotent; at most 2 s. What was shared stays until it expires."""


class NoNodeHints:
    """``NodeHints`` without a place for hints."""

    def start(self, inbox: Inbox) -> None:
        pass

    def share(self, node: NodeId, reason: str) -> None:
        pass

    def close(self) -> None:
        pass


class StatusPublisher(Protocol):
    """Where the AM shows the job to clients. Both calls return immediately."""

    def publish(self, status_json: bytes) -> None:
        """Show this status from now on; clients that wait for a change are notified."""

    def record(self, events_json: Sequence[bytes]) -> None:
        """Add to the events that clients can read."""


class Journal(Protocol):
    """The ordered, durable record of a job's events."""

    def replay(self) -> Sequence[Event]:
        """Open the journal for this AM attempt, which cuts off every older one's, and return all
        events recorded before, in order. To be called once, first. Raises Unavailable,
        Superseded."""

    def append(self, events: Sequence[Event]) -> None:
        """Durable when it returns. Raises Unavailable after at most 30 s; calling again with the
        same events is then right: none is recorded twice. Raises Superseded."""

    def close(self) -> None:
        """Idempotent; nothing that was appended is lost without it."""


class StateStore(Protocol):
    """Small named records of one job that others read (verdict, AM address, status). Writes are
    atomic, and fenced: a store opened with an older epoch than the newest is refused."""

    def put(self, name: str, value: bytes) -> None:
        """Whole or not at all; on disk when it returns. Raises Unavailable, Superseded."""

    def get(self, name: str) -> bytes | None:
        """``None`` if there is no such record. Raises Unavailable."""

    def remove(self, name: str) -> None:
        """Afterwards there is none. Raises Unavailable, Superseded."""
