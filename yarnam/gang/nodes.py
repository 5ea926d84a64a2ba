"""The node blacklist: strikes, exclusions, other jobs' hints.

A fault that speaks against a node is a strike, which expires. Enough of them exclude the node for
a cool-down: the planner leaves it out and a grant there is refused. Nodes with fewer, and nodes
that other jobs have had trouble with, are used last. The excluded share of the cluster is capped,
because a job that trusts no node never runs: beyond the cap the oldest exclusions are lifted.

All of it lives in the gang, so it survives its ApplicationMaster by the journal.
"""

from __future__ import annotations

from dataclasses import replace

from yarnam.gang.state import Crash, Exclusion, Gang, GangPolicy, Strike
from yarnam.gang.turn import Turn
from yarnam.model.actions import ShareStrike
from yarnam.model.events import NodesSuspected
from yarnam.model.ids import NodeId

UNKNOWN_SIZE_LIMIT = 1
"""Nodes excluded at most while the size of the cluster is not known."""


def strike(turn: Turn, node: NodeId, why: str, *, is_full: bool = False) -> None:
    """Count a fault of a node; ``is_full``: it counts as all strikes at once."""
    rules = turn.policy.blacklist
    weight = max(1, rules.strikes) if is_full else 1
    kept = tuple(s for s in turn.gang.strikes if turn.at_s < s.at_s + rules.expiry_s)
    new = Strike(node, turn.at_s, weight, why)
    turn.gang = replace(turn.gang, strikes=(*kept, new))
    turn.do(ShareStrike(node, why))
    _judge(turn, node)


def _judge(turn: Turn, node: NodeId) -> None:
    """Exclude this node if it has strikes enough by now. Called when something new is held against
    it: so a node that was lifted, or has cooled down, needs one fault more to be out again."""
    rules, gang, now_s = turn.policy.blacklist, turn.gang, turn.at_s
    mine = [s for s in _live_strikes(gang, turn.policy, now_s) if s.node == node]
    points = sum(s.weight for s in mine) + (node in _hinted(gang, turn.policy, now_s))
    is_out = any(e.node == node and now_s < e.until_s for e in gang.exclusions)
    if not rules.strikes or not mine or is_out or points < rules.strikes:
        return
    new = Exclusion(node, now_s, now_s + rules.cool_down_s, mine[-1].why)
    turn.gang = replace(gang, exclusions=(*gang.exclusions, new))
    _keep_to_cap(turn)


def _keep_to_cap(turn: Turn) -> None:
    live = [e for e in turn.gang.exclusions if turn.at_s < e.until_s]
    surplus = max(0, len(live) - cap(turn.gang, turn.policy))
    turn.gang = replace(turn.gang, exclusions=tuple(live[surplus:]))


def cap(gang: Gang, policy: GangPolicy) -> int:
    """Most nodes that may be excluded now."""
    if not gang.cluster_nodes:
        return UNKNOWN_SIZE_LIMIT if policy.blacklist.max_share else 0
    return int(policy.blacklist.max_share * gang.cluster_nodes + 1e-9)


def excluded(gang: Gang, policy: GangPolicy, at_s: float) -> tuple[NodeId, ...]:
    """Nodes that get no task now: the job's own list, then the blacklist."""
    mine = (e.node for e in gang.exclusions if at_s < e.until_s)
    return tuple(dict.fromkeys((*policy.excluded, *mine)))


def why_excluded(gang: Gang, policy: GangPolicy, node: NodeId, at_s: float) -> str | None:
    """Why this node gets no task; None: it may."""
    if node in policy.excluded:
        return f"{node} is excluded by the job"
    if policy.included and node not in policy.included:
        return f"{node} is not among the nodes that the job names"
    for one in gang.exclusions:
        if one.node == node and at_s < one.until_s:
            left_s = one.until_s - at_s
            return f"{node} is on the job's blacklist for {left_s:.0f} s more ({one.why})"
    return None


def suspects(gang: Gang, policy: GangPolicy, at_s: float) -> tuple[NodeId, ...]:
    """Nodes to use last: with strikes that do not exclude, or with other jobs' hints."""
    found = {s.node for s in _live_strikes(gang, policy, at_s)} | _hinted(gang, policy, at_s)
    return tuple(sorted(found - set(excluded(gang, policy, at_s))))


def suspected(turn: Turn, event: NodesSuspected) -> None:
    """Other jobs' hints: with a strike of this job's own they may exclude, never alone."""
    known = _hinted(turn.gang, turn.policy, turn.at_s)
    told = {n: s for n, s in turn.gang.suspicions if n in known}
    told.update(dict.fromkeys(event.nodes, event.at_s))
    turn.gang = replace(turn.gang, suspicions=tuple(sorted(told.items())))
    for node in event.nodes:
        if node not in known:
            _judge(turn, node)


def learn_size(turn: Turn, nodes: int) -> None:
    """The cluster has this many usable nodes now; 0: not known."""
    if nodes:
        turn.gang = replace(turn.gang, cluster_nodes=nodes)
        _keep_to_cap(turn)


def lift_all(turn: Turn) -> bool:
    """Trust every node again, as far as the job's own list allows; False: nobody was excluded."""
    if not turn.gang.exclusions:
        return False
    turn.gang = replace(turn.gang, exclusions=(), strikes=())
    return True


def crashed(turn: Turn, node: NodeId, why: str) -> None:
    """A process was killed by a signal, and nothing else came first. Once that is the program's
    affair; again on the same node, and on no other, it is the node's."""
    expiry_s = turn.policy.blacklist.expiry_s
    kept = tuple(c for c in turn.gang.crashes if turn.at_s < c.at_s + expiry_s)
    crashes = (*kept, Crash(node, turn.at_s))
    turn.gang = replace(turn.gang, crashes=crashes)
    stood_on = {member.grant.node for member in turn.gang.members if member.grant}
    if len(crashes) > 1 and len(stood_on) > 1 and {c.node for c in crashes} == {node}:
        strike(turn, node, why)


def _live_strikes(gang: Gang, policy: GangPolicy, at_s: float) -> list[Strike]:
    expiry_s = policy.blacklist.expiry_s
    return [s for s in gang.strikes if at_s < s.at_s + expiry_s]


def _hinted(gang: Gang, policy: GangPolicy, at_s: float) -> set[NodeId]:
    expiry_s = policy.blacklist.expiry_s
    return {node for node, told_s in gang.suspicions if at_s < told_s + expiry_s}
