"""The ApplicationMaster of a large gang, in a process of its own: the real loop, gang machine,
planner and mailbox. YARN grants at once, and HDFS is in memory.

Arguments: the number of tasks, the file with the job's credentials. Prints ``address HOST:PORT``;
ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from pathlib import Path

from tests.fakes.cluster_view import FakeView, cluster
from tests.fakes.container_broker import FakeBroker
from tests.fakes.journal import FakeJournal, JournalDisk
from tests.fakes.state_store import FakeStore, StoreDisk
from yarnam.adapters.clock import SystemClock
from yarnam.adapters.grpc.am_server import GrpcMailbox
from yarnam.am.am_ports import AmPorts
from yarnam.am.status_report import AmFacts
from yarnam.cli.containers.am_assembly import assemble_am
from yarnam.core.model.job_spec import AmSpec, JobSpec, RoleSpec
from yarnam.core.model.plans import NoFit
from yarnam.core.model.resources import Resources
from yarnam.core.placement import declared_targets, ladder_for_submit
from yarnam.wire.records import JobRecord

APPLICATION = "application_1_0001"
GPUS = 8


def large_job(tasks: int) -> JobSpec:
    """Whole nodes with one process each, so that each task is one rank."""
    roles = (RoleSpec("worker", tasks, Resources(1024, 1, GPUS), ("train",)),)
    # All agents share one process: on a busy machine each is late.
    am = AmSpec(agent_silence_s=60.0)
    return JobSpec("large", "root.dl", "u", "command", roles, am=am)


def main() -> None:
    tasks, pem = int(sys.argv[1]), Path(sys.argv[2]).read_bytes()
    shown = cluster(nodes=tasks, racks=tasks // 40 + 1)
    job = large_job(tasks)
    ladder = ladder_for_submit(shown, job)
    assert not isinstance(ladder, NoFit), ladder
    record = JobRecord(job, declared_targets(ladder), "hdfs://nn/job", 1.0, "0")
    mailbox = GrpcMailbox(job, pem, host="127.0.0.1", application=APPLICATION)
    broker = FakeBroker(time.time)
    ports = AmPorts(
        clock=SystemClock,
        broker=broker,
        view=FakeView(shown),
        mailbox=mailbox,
        journal=FakeJournal(JournalDisk(), 1),
        store=FakeStore(StoreDisk(), 1),
        publisher=mailbox.control,
        draw=random.random,
    )
    am = assemble_am(record, AmFacts(APPLICATION, 1, "", True), ports)

    def grant() -> None:
        while not mailbox.address or not broker.pending:
            time.sleep(0.05)
        print(f"address {mailbox.address}", flush=True)
        for ask in list(broker.pending):
            node = shown.nodes[ask.number]
            broker.grant(ask, node.node_id, node.rack)

    async def run() -> None:
        work = asyncio.get_running_loop().create_task(am.run())
        await asyncio.to_thread(sys.stdin.read)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    threading.Thread(target=grant, daemon=True).start()
    asyncio.run(run())
    mailbox.close()


if __name__ == "__main__":
    main()
