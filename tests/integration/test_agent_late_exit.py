"""torch for real: a rank that waits in its shutdown for one that has ended, with no exception and
no missed step."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.integration.agent_world import ROOT, World, small_job, world
from tests.integration.framework_venvs import framework_python
from yarnam.adapters.grpc.agent_session import AgentSession
from yarnam.agent.launch.process_activity import IDLE_S
from yarnam.core.failures.hang_detection import find_late_exit, hang_finding, where_text
from yarnam.core.failures.rank_activity import RankActivity
from yarnam.core.model.ids import parse_ask_id
from yarnam.core.model.job_spec import EnvironmentSpec, HangSpec
from yarnam.core.model.outcomes import FailureClass, RetryAction
from yarnam.wire.pb import yarnam_pb2 as pb

ASKS = ("a1.worker.0", "a1.worker.1")

TRAIN = """\
import os, time
import torch
from torch.distributed import rpc
from yarnam import train

options = rpc.TensorPipeRpcBackendOptions(init_method="env://")
rpc.init_rpc(
    f"w{train.rank()}", rank=train.rank(), world_size=train.world_size(),
    rpc_backend_options=options,
)
for step in range(1, 9):
    loss = torch.ones(4).sum().item()
    train.report(step=step, loss=loss)
    time.sleep(0.5)
if train.rank() == 0:
    print("the training is over", flush=True)
    rpc.shutdown()  # until all have come here
"""

pytestmark = [
    pytest.mark.grpc,
    pytest.mark.asyncio,
    pytest.mark.frameworks,
    pytest.mark.timeout(2500),
]


def seen(here: World) -> list[RankActivity]:
    """What the ApplicationMaster makes of all reports."""
    ranks = []
    for ask in ASKS:
        session, has_ended = AgentSession(parse_ask_id(ask)), False
        for report, at_s in here.am.mailbox.timed[ask]:
            has_ended |= report.state == pb.EXITED
            [*session.report(report, at_s)]
        found = [watch.activity(time.time()) for watch in session.watches.values()]
        ranks += [_ended(one) if has_ended else one for one in found]
    return ranks


def _ended(rank: RankActivity) -> RankActivity:
    return RankActivity(rank.ask, rank.rank, has_ended=True)


async def test_a_rank_that_waits_in_its_shutdown_is_named(tmp_path: Path) -> None:
    program, spec = tmp_path / "train.py", HangSpec(idle_s=IDLE_S + 2.0)
    program.write_text(TRAIN)
    job = small_job(
        ["python3", str(program)],
        tasks=2,
        framework="pytorch",
        environment=EnvironmentSpec(str(framework_python("torch"))),
        role_env=(("PYTHONPATH", str(ROOT)),),  # for the SDK
    )
    async with world(tmp_path) as here:
        for ask in ASKS:
            here.container(job, ask=ask).start()
        for ask in ASKS:
            await here.am.until(ask, pb.READY, limit_s=120)
        await here.am.launch(job, ASKS)
        ended = await here.am.until(ASKS[1], pb.EXITED, limit_s=300)
        assert [one.kind for one in ended.processes] == ["ok"], here.containers[1].log(index=1)
        assert find_late_exit(seen(here), spec) == "", "it may save, or evaluate"
        deadline = time.monotonic() + 120
        while not (why := find_late_exit(seen(here), spec)):
            assert time.monotonic() < deadline, here.containers[0].log()
            await asyncio.sleep(0.5)
        await here.am.mailbox.order(ASKS[0], dump=pb.Dump(attempt=1))
        await here.am.mailbox.until(ASKS[0], lambda one: any(p.dumped for p in one.processes))
        ranks = seen(here)
        missing, finding = hang_finding(ranks, why)
        (left,) = [one for one in ranks if not one.has_ended]
        await here.am.mailbox.order(ASKS[0], stop=pb.Stop(attempt=1, grace_s=0.0))
        await here.am.until(ASKS[0], pb.EXITED)
    assert missing == (0,)
    assert (finding.failure, finding.action) == (FailureClass.HANG, RetryAction.RETRY)
    assert "rank 0 did nothing" in finding.line
    assert "(api.py:" in where_text(left), where_text(left)
