"""Directives as the mailbox decodes them."""

from __future__ import annotations

import zlib

import pytest

from yarnam.agent.machine.agent_directives import (
    Check,
    CheckPeer,
    Directive,
    Dump,
    Launch,
    Leave,
    Park,
    ProcessLaunch,
    Stage,
    Stop,
)
from yarnam.agent.mailbox.directive_messages import decode_directive
from yarnam.wire.pb import yarnam_pb2 as pb

LAUNCH = pb.Launch(
    attempt=3, role="worker", index=2, metrics_period_ms=1500, members=["a1.worker.0:1"],
    processes=[pb.ProcessLaunch(rank=4, local_rank=1, env={"A": "own"}, gpu_ids=["0"])],
)  # fmt: skip
DECODED = Launch(
    3, "worker", 2, (ProcessLaunch(4, 1, {"A": "own"}, ("0",)),), 1.5, ("a1.worker.0:1",)
)


@pytest.mark.parametrize(
    ("message", "order"),
    [
        (pb.Directive(park=pb.Park()), Park()),
        (pb.Directive(), Park()),
        (pb.Directive(launch=LAUNCH), DECODED),
        (pb.Directive(prepare=LAUNCH), Stage(DECODED)),
        (pb.Directive(dump=pb.Dump(attempt=2)), Dump(2)),
        (pb.Directive(leave=pb.Leave(reason="x")), Leave("x")),
        (pb.Directive(stop=pb.Stop(attempt=1, grace_s=2.0)), Stop(1, 2.0)),
        (
            pb.Directive(stop=pb.Stop(attempt=1, reason="r", idle_grace_s=0.0, at_step=0)),
            Stop(1, 0.0, "r", 0.0, at_step=0),
        ),
        (pb.Directive(stop=pb.Stop(attempt=1, agree=True)), Stop(1, agree=True)),
        (
            pb.Directive(
                check=pb.Check(
                    attempt=1, check=9, full=True, limit_s=5.0,
                    peers=[pb.CheckPeer(node="n2", address="n2:1")],
                )
            ),
            Check(1, 9, True, 5.0, (CheckPeer("n2", "n2:1"),)),
        ),
    ],
)  # fmt: skip
def test_every_order(message: pb.Directive, order: Directive) -> None:
    message.number = 5
    found = decode_directive(message)
    assert found.number == 5
    assert (type(found.order), found.order) == (type(order), order)


def test_what_the_gang_has_alike_is_given_to_each_process() -> None:
    shared = pb.SharedEnvironment(env={"A": "all", "B": "all"}).SerializeToString()
    message = pb.Directive(launch=LAUNCH)
    message.launch.shared_env = zlib.compress(shared)
    order = decode_directive(message).order
    assert isinstance(order, Launch)
    assert order.processes[0].env == {"A": "all", "B": "all"}
