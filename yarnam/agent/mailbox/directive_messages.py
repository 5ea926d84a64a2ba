"""Directives as messages: the agent decodes them here, and knows values alone from then on."""

from __future__ import annotations

from typing import NamedTuple

from hdfs_utils.protocols.untrusted import decompress
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
from yarnam.wire.pb import yarnam_pb2 as pb
from yarnam.wire.tls import MAX_MESSAGE_BYTES


class NumberedDirective(NamedTuple):
    number: int
    order: Directive


def decode_directive(directive: pb.Directive) -> NumberedDirective:
    """An order that this version does not know changes nothing, like PARK."""
    share_environment(directive)
    return NumberedDirective(directive.number, _order(directive))


def share_environment(directive: pb.Directive) -> None:
    """Gives each process that is to be launched what all of the gang have alike."""
    for order in (directive.launch, directive.prepare):
        if order.shared_env:
            unpacked = decompress(order.shared_env, max_bytes=MAX_MESSAGE_BYTES)
            shared = pb.SharedEnvironment.FromString(unpacked)
            for process in order.processes:
                process.env.update(shared.env)


def _order(directive: pb.Directive) -> Directive:
    match directive.WhichOneof("order"):
        case "prepare":
            return Stage(_launch(directive.prepare))
        case "check":
            return _check(directive.check)
        case "launch":
            return _launch(directive.launch)
        case "stop":
            return _stop(directive.stop)
        case "dump":
            return Dump(directive.dump.attempt)
        case "leave":
            return Leave(directive.leave.reason)
        case _:
            return Park()


def _launch(launch: pb.Launch) -> Launch:
    processes = tuple(
        ProcessLaunch(one.rank, one.local_rank, dict(one.env), tuple(one.gpu_ids))
        for one in launch.processes
    )
    return Launch(
        launch.attempt,
        launch.role,
        launch.index,
        processes,
        launch.metrics_period_ms / 1000,
        tuple(launch.members),
    )


def _check(check: pb.Check) -> Check:
    peers = tuple(CheckPeer(peer.node, peer.address) for peer in check.peers)
    return Check(check.attempt, check.check, check.full, check.limit_s, peers)


def _stop(stop: pb.Stop) -> Stop:
    return Stop(
        stop.attempt,
        stop.grace_s,
        stop.reason,
        stop.idle_grace_s if stop.HasField("idle_grace_s") else None,
        stop.agree,
        stop.at_step if stop.HasField("at_step") else None,
    )
