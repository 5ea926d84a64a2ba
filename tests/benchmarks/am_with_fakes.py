"""An AM for test_am_memory: ``am_with_fakes.py TASKS CREDENTIALS`` prints where it listens."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.fakes.cluster_view import FakeView, cluster
from tests.fakes.container_broker import FakeBroker
from tests.fakes.journal import FakeJournal, JournalDisk
from tests.fakes.node_hints import FakeHints
from tests.fakes.state_store import FakeStore, StoreDisk
from tests.unit.am.am_world import APPLICATION, job
from yarnam.adapters.clock import SystemClock
from yarnam.adapters.grpc.am_server import GrpcMailbox
from yarnam.am.am_ports import AmPorts
from yarnam.am.loop import ApplicationMaster
from yarnam.am.status_report import AmFacts
from yarnam.cli.containers.am_assembly import assemble_am
from yarnam.core.model.actions import AskContainer
from yarnam.core.model.job_spec import GangSpec
from yarnam.core.model.job_status import Phase
from yarnam.core.model.plans import NoFit
from yarnam.core.model.resources import Resources
from yarnam.core.placement import declared_targets, ladder_for_submit
from yarnam.wire.records import JobRecord


class Granting(FakeBroker):
    """Grants every ask at once, on the only node there is."""

    def ask(self, asks: Sequence[AskContainer]) -> None:
        super().ask(asks)
        for ask in asks:
            self.grant(ask.ask, "n1")


async def run(am: ApplicationMaster, mailbox: GrpcMailbox) -> None:
    running = asyncio.create_task(am.run())
    while am.gang.phase is not Phase.ACQUIRING:
        await asyncio.sleep(0.1)
    await asyncio.sleep(1.0)  # the mailbox expects the agents by then
    print(mailbox.address, flush=True)
    await running


def assembled(
    tasks: int, credentials: bytes, broker: FakeBroker, journal: FakeJournal, gang: GangSpec
) -> tuple[ApplicationMaster, GrpcMailbox]:
    spec = job(tasks, gpus=1, gang=gang)
    (node,) = cluster(nodes=1).nodes
    size = Resources(4096 * (tasks + 1), 2 * (tasks + 1), tasks)
    snapshot = replace(cluster(nodes=1), nodes=(replace(node, total=size),))
    ladder = ladder_for_submit(snapshot, spec)
    assert not isinstance(ladder, NoFit)
    record = JobRecord(spec, declared_targets(ladder), "hdfs://nn/u/.yarnam/jobs/1", 1.0, "0")
    mailbox = GrpcMailbox(spec, credentials, host="127.0.0.1", application=APPLICATION)
    ports = AmPorts(
        clock=SystemClock,
        broker=broker,
        view=FakeView(snapshot),
        mailbox=mailbox,
        journal=journal,
        store=FakeStore(StoreDisk(), 1),
        publisher=mailbox.control,
        draw=random.random,
        hints=FakeHints(),
    )
    return assemble_am(record, AmFacts(APPLICATION, 1, "", False), ports), mailbox


def main() -> None:
    tasks, credentials = int(sys.argv[1]), Path(sys.argv[2]).read_bytes()
    broker, journal = Granting(SystemClock().now_s), FakeJournal(JournalDisk(), 1)
    am, mailbox = assembled(tasks, credentials, broker, journal, GangSpec(hold_timeout_s=600.0))
    asyncio.run(run(am, mailbox))


if __name__ == "__main__":
    main()
