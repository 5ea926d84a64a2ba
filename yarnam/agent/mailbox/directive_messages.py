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
    return NumberedDirective(directive.number, _order(directive))


def _order(directive: pb.Directive) -> Directive:
    match directive.WhichOneof("order"):
        case "prepare":
            return Stage(decode_launch(directive.prepare))
        case "check":
            return _check(directive.check)
        case "launch":
            return decode_launch(directive.launch)
        case "stop":
            return _stop(directive.stop)
        case "dump":
            return Dump(directive.dump.attempt)
        case "leave":
            return Leave(directive.leave.reason)
        case _:
            return Park()


def decode_launch(launch: pb.Launch) -> Launch:
    """Each process gets what all of the gang have alike, too."""
    shared = _shared_environment(launch)
    processes = tuple(
        ProcessLaunch(one.rank, one.local_rank, {**one.env, **shared}, tuple(one.gpu_ids))
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


def _shared_environment(launch: pb.Launch) -> dict[str, str]:
    if not launch.shared_env:
        return {}
    unpacked = decompress(launch.shared_env, max_bytes=MAX_MESSAGE_BYTES)
    return dict(pb.SharedEnvironment.FromString(unpacked).env)


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
