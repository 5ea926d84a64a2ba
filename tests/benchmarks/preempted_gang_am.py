"""An AM for test_preempted_gang: ``preempted_gang_am.py TASKS CREDENTIALS``. It prints where it
listens, then each ask that is granted. Each line on its standard input preempts the gang."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.am_with_fakes import assembled, run
from tests.fakes.container_broker import FakeBroker
from tests.fakes.journal import FakeJournal, JournalDisk
from yarnam.adapters.clock import SystemClock
from yarnam.core.model.actions import AskContainer
from yarnam.core.model.events import Event
from yarnam.core.model.job_spec import GangSpec
from yarnam.core.model.outcomes import ContainerEnd


class Preempting(FakeBroker):
    """Remembers no more than YARN would have the AM remember."""

    def ask(self, asks: Sequence[AskContainer]) -> None:
        super().ask(asks)
        for ask in asks:
            self.grant(ask.ask, "n1")
            print(ask.ask, flush=True)

    def preempt(self) -> None:
        for ask in list(self.granted):
            self.end(ask, ContainerEnd.PREEMPTED)
        self._known.clear()
        self.released.clear()


class NoJournal(FakeJournal):
    """Lies on HDFS, not in the AM."""

    def append(self, events: Sequence[Event]) -> None:
        return


def main() -> None:
    tasks, credentials = int(sys.argv[1]), Path(sys.argv[2]).read_bytes()
    gang = GangSpec(hold_timeout_s=600.0, backoff_base_s=0.1, backoff_cap_s=0.1)
    broker, journal = Preempting(SystemClock().now_s), NoJournal(JournalDisk(), 1)
    am, mailbox = assembled(tasks, credentials, broker, journal, gang)

    def follow() -> None:
        for _ in sys.stdin:
            broker.preempt()

    threading.Thread(target=follow, daemon=True).start()
    asyncio.run(run(am, mailbox))


if __name__ == "__main__":
    main()
