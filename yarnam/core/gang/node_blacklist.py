"""The node blacklist: strikes, exclusions, other jobs' hints.

A fault that speaks against a node is a strike, which expires. Enough of them exclude the node for
a cool-down: the planner leaves it out and a grant there is refused. Nodes with fewer, and nodes
that other jobs have had trouble with, are used last. The excluded share of the cluster is capped,
because a job that trusts no node never runs: beyond the cap the oldest exclusions are lifted.

All of it lives in the gang, so it survives its ApplicationMaster by the journal.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.core.gang.context import StepContext
from yarnam.core.gang.policy import GangPolicy
from yarnam.core.gang.state import Crash, Exclusion, Gang, Member, Strike
from yarnam.core.model.actions import ShareStrike
from yarnam.core.model.events import NodesCordoned, NodesSuspected
from yarnam.core.model.ids import NodeId

UNKNOWN_SIZE_LIMIT = 1
"""Nodes excluded at most while the size of the cluster is not known."""


def strike(ctx: StepContext, node: NodeId, why: str, *, is_full: bool = False) -> None:
    """Count a fault of a node. With ``is_full`` it weighs as much as all strikes together."""
    rules = ctx.policy.retry.blacklist
    weight = max(1, rules.strikes) if is_full else 1
    kept = tuple(s for s in ctx.nodes.strikes if ctx.at_s < s.at_s + rules.expiry_s)
    new = Strike(node, ctx.at_s, weight, why)
    ctx.nodes = replace(ctx.nodes, strikes=(*kept, new))
    ctx.do(ShareStrike(node, why))
    _judge(ctx, node)


def _judge(ctx: StepContext, node: NodeId) -> None:
    """Exclude this node if it has strikes enough by now. Called when something new is held against
    it: so a node that was lifted, or has cooled down, needs one fault more to be out again."""
    rules, gang, now_s = ctx.policy.retry.blacklist, ctx.gang, ctx.at_s
    mine = [s for s in _live_strikes(gang, ctx.policy, now_s) if s.node == node]
    points = sum(s.weight for s in mine) + (node in _hinted(gang, ctx.policy, now_s))
    is_out = any(e.node == node and now_s < e.until_s for e in gang.nodes.exclusions)
    if not rules.strikes or not mine or is_out or points < rules.strikes:
        return
    new = Exclusion(node, now_s, now_s + rules.cool_down_s, mine[-1].why)
    ctx.nodes = replace(ctx.nodes, exclusions=(*ctx.nodes.exclusions, new))
    _keep_to_cap(ctx)


def _keep_to_cap(ctx: StepContext) -> None:
    live = [e for e in ctx.nodes.exclusions if ctx.at_s < e.until_s]
    surplus = max(0, len(live) - cap(ctx.gang, ctx.policy))
    ctx.nodes = replace(ctx.nodes, exclusions=tuple(live[surplus:]))


def cap(gang: Gang, policy: GangPolicy) -> int:
    """Most nodes that may be excluded now."""
    if not gang.nodes.cluster_nodes:
        return UNKNOWN_SIZE_LIMIT if policy.retry.blacklist.max_share else 0
    return int(policy.retry.blacklist.max_share * gang.nodes.cluster_nodes + 1e-9)


def excluded(gang: Gang, policy: GangPolicy, at_s: float) -> tuple[NodeId, ...]:
    """Nodes that get no task now: the job's own list, then the blacklist."""
    mine = (e.node for e in gang.nodes.exclusions if at_s < e.until_s)
    return tuple(dict.fromkeys((*policy.excluded, *mine)))


def why_excluded(gang: Gang, policy: GangPolicy, node: NodeId, at_s: float) -> str | None:
    """Explain why this node gets no task; ``None`` if it may."""
    if node in policy.excluded:
        return f"{node} is excluded by the job"
    if policy.included and node not in policy.included:
        return f"{node} is not among the nodes that the job names"
    for cordoned in gang.nodes.cordoned:
        if cordoned.node == node:
            return f"{node} is {cordoned.why}"
    for one in gang.nodes.exclusions:
        if one.node == node and at_s < one.until_s:
            left_s = one.until_s - at_s
            return f"{node} is on the job's blacklist for {left_s:.0f} s more ({one.why})"
    return None


def take_cordons(ctx: StepContext, event: NodesCordoned) -> None:
    """Nodes that an administrator keeps gangs off: no grant there is held from now on."""
    ctx.nodes = replace(ctx.nodes, cordoned=event.nodes)


def suspects(gang: Gang, policy: GangPolicy, at_s: float) -> tuple[NodeId, ...]:
    """Nodes to use last: with strikes of this job that do not exclude."""
    found = {s.node for s in _live_strikes(gang, policy, at_s)}
    return tuple(sorted(found - set(excluded(gang, policy, at_s))))


def hinted(gang: Gang, policy: GangPolicy, at_s: float) -> tuple[NodeId, ...]:
    """Nodes to use before the suspects, after all others: only other jobs speak against them."""
    known = {*excluded(gang, policy, at_s), *suspects(gang, policy, at_s)}
    return tuple(sorted(_hinted(gang, policy, at_s) - known))


def take_hints(ctx: StepContext, event: NodesSuspected) -> None:
    """Other jobs' hints: with a strike of this job's own they may exclude, never alone."""
    known = _hinted(ctx.gang, ctx.policy, ctx.at_s)
    hints = {n: s for n, s in ctx.nodes.suspicions if n in known}
    hints.update(dict.fromkeys(event.nodes, event.at_s))
    ctx.nodes = replace(ctx.nodes, suspicions=tuple(sorted(hints.items())))
    for node in event.nodes:
        if node not in known:
            _judge(ctx, node)


def learn_size(ctx: StepContext, nodes: int) -> None:
    """Note that the cluster has this many usable nodes now; 0 if unknown."""
    if nodes and nodes != ctx.nodes.cluster_nodes:
        ctx.nodes = replace(ctx.nodes, cluster_nodes=nodes)
    if nodes and ctx.nodes.exclusions:
        _keep_to_cap(ctx)


def lift_all(ctx: StepContext) -> None:
    """Trust every node again, as far as the job's own list allows."""
    ctx.nodes = replace(ctx.nodes, exclusions=(), strikes=())


def crashed(ctx: StepContext, node: NodeId, why: str) -> None:
    """A process was killed by a signal, and nothing else came first. Once that is the program's
    affair; again on the same node, and on no other, it is the node's."""
    expiry_s = ctx.policy.retry.blacklist.expiry_s
    kept = tuple(c for c in ctx.nodes.crashes if ctx.at_s < c.at_s + expiry_s)
    crashes = (*kept, Crash(node, ctx.at_s))
    ctx.nodes = replace(ctx.nodes, crashes=crashes)
    used = {member.grant.node for member in ctx.gang.members if member.grant}
    if len(crashes) > 1 and len(used) > 1 and {c.node for c in crashes} == {node}:
        strike(ctx, node, why)


def _live_strikes(gang: Gang, policy: GangPolicy, at_s: float) -> list[Strike]:
    expiry_s = policy.retry.blacklist.expiry_s
    return [s for s in gang.nodes.strikes if at_s < s.at_s + expiry_s]


def _hinted(gang: Gang, policy: GangPolicy, at_s: float) -> set[NodeId]:
    expiry_s = policy.retry.blacklist.expiry_s
    return {node for node, since_s in gang.nodes.suspicions if at_s < since_s + expiry_s}


def members_on_excluded(gang: Gang, policy: GangPolicy, at_s: float) -> list[Member]:
    """Members whose container is on a node that is excluded by now."""
    out = set(excluded(gang, policy, at_s))
    return [m for m in gang.members if m.grant is not None and m.grant.node in out]
