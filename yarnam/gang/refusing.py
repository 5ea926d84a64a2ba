"""Grants that are given back, and where it is no use to ask again.

YARN may grant the same unfit node again and again: nothing tells it not to. What was refused is
counted by node and service within the attempt. A target of named nodes, each of which was refused,
can give nothing any more; nor, by experience, can a wider one that keeps giving the same unfit
node. Then the rest of the gang is kept, and the planner is asked for another place.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.gang import nodes
from yarnam.gang.state import Gang, GangPolicy, Member, Refusal
from yarnam.gang.turn import Turn
from yarnam.model.ids import NodeId
from yarnam.model.placement import LocalityLevel, Target

SHOWN = 3
"""Nodes named in a text."""


def note(turn: Turn, member: Member, node: NodeId, why: str, *, is_unfit: bool) -> None:
    """Count one grant that is given back."""
    service = member.target.service
    known = {(one.node, one.service): one for one in turn.gang.refusals}
    old = known.get((node, service))
    known[node, service] = Refusal(
        node,
        member.target.role,
        service,
        why,
        old.times + 1 if old is not None else 1,
        is_unfit,
    )
    turn.gang = replace(turn.gang, misfits=turn.gang.misfits + 1, refusals=tuple(known.values()))


def why_unfit(gang: Gang, target: Target, node: NodeId) -> str | None:
    """Why this node was found unfit for the role in this attempt; None: it was not."""
    if not target.resources.gpus:
        return None
    for one in gang.refusals:
        if one.is_unfit and one.node == node and one.role == target.role:
            return one.why
    return None


def why_useless(gang: Gang, policy: GangPolicy, target: Target, at_s: float) -> str | None:
    """Why asking for this target once more cannot help; None: it may."""
    refused = {one.node: one for one in gang.refusals if one.service == target.service}
    if target.level is LocalityLevel.NODE:
        found: list[str] = []
        for node in target.nodes:
            why = nodes.why_excluded(gang, policy, node, at_s)
            if why is None and node in refused:
                why = _counted(refused[node])
            if why is None:
                return None
            found.append(why)
        return f"no node that {target.role} was asked for on can take it: {_several(found)}"
    again = [
        one
        for one in refused.values()
        if one.is_unfit or nodes.why_excluded(gang, policy, one.node, at_s) is not None
    ]
    worst = max(again, key=lambda one: one.times, default=None)
    if worst is None or worst.times < policy.refusals_per_node:
        return None
    return f"YARN keeps granting {worst.node} for {target.role}: {_counted(worst)}"


def refused_in_words(gang: Gang) -> str:
    """``2 grants given back (n1 has V100, the job wants A100)``; empty: none was."""
    if not gang.misfits:
        return ""
    whys = list(dict.fromkeys(one.why for one in gang.refusals))
    grants = f"{gang.misfits} grant{'s' if gang.misfits != 1 else ''} given back"
    return f"{grants} ({_several(whys)})" if whys else grants


def _counted(one: Refusal) -> str:
    return f"{one.why} ({one.times} grant{'s' if one.times != 1 else ''} given back)"


def _several(whys: list[str]) -> str:
    more = f" and {len(whys) - SHOWN} more" if len(whys) > SHOWN else ""
    return "; ".join(whys[:SHOWN]) + more
