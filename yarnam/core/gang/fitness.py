"""Decide whether to hold a grant, which refusals to count, and when asking again is useless.

The gang refuses a grant on a node that the job does not use or that was not asked for, a grant with
which the gang as a whole would break its rung, and a container whose agent is not its own or has
found other GPUs than the job wants. For a replaced task it also refuses a node with a strike,
unless the plan needs that node.

YARN may grant the same unfit node again and again: it cannot be prevented. So refusals are counted
by node and service within the attempt. A target of named nodes is exhausted once each of them was
refused; so is, by experience, a wider target that keeps giving the same unfit node. Then the rest
of the gang is kept, and the planner is asked for another place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from yarnam.core.gang import node_blacklist
from yarnam.core.gang.context import StepContext
from yarnam.core.gang.policy import GangPolicy
from yarnam.core.gang.state import Gang, Member, MemberState, Refusal
from yarnam.core.model.events import AgentRegistered, ContainerGranted
from yarnam.core.model.gpu_names import has_words, is_same_model, may_be_same
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_spec import ANY_GPU_MODEL, SAME_GPU_MODEL
from yarnam.core.model.job_status import Phase
from yarnam.core.model.plans import LocalityLevel, Target

SHOWN = 3
"""Nodes named in a text."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a grant, or the agent in it, is refused."""

    why: str
    is_unfit: bool
    """Whether the node's GPUs are the reason, by their model or their holder: the node is useless
    to the role in this attempt."""


def why_refused(
    gang: Gang,
    policy: GangPolicy,
    member: Member,
    event: ContainerGranted | AgentRegistered,
    at_s: float,
) -> Misfit | None:
    """Explain why this grant, or the agent that registered in it, does not suit ``member``;
    ``None`` if it does. ``member`` is as it was before the event; members that are about to join
    the gang count as its own."""
    if isinstance(event, AgentRegistered):
        return _of_agent(gang, policy, member, event)
    known = _known_as_unfit(gang, member.target, event.node)
    if known is not None:
        return Misfit(known, is_unfit=True)
    why = (
        node_blacklist.why_excluded(gang, policy, event.node, at_s)
        or _off_target(member.target, event)
        or _breaks_shape(gang, member, event)
        or _struck_in_vain(gang, policy, member, event, at_s)
    )
    return Misfit(why, is_unfit=False) if why else None


def note_refusal(ctx: StepContext, member: Member, node: NodeId, misfit: Misfit) -> None:
    """Count one grant that is released."""
    service = member.target.service
    known = {(refusal.node, refusal.service): refusal for refusal in ctx.acquisition.refusals}
    old = known.get((node, service))
    known[node, service] = Refusal(
        node,
        member.target.role,
        service,
        misfit.why,
        old.times + 1 if old is not None else 1,
        misfit.is_unfit,
    )
    ctx.acquisition = replace(
        ctx.acquisition, misfits=ctx.acquisition.misfits + 1, refusals=tuple(known.values())
    )


def why_useless(gang: Gang, policy: GangPolicy, target: Target, at_s: float) -> str | None:
    """Explain why asking for this target once more cannot help; ``None`` if it may."""
    refused = {one.node: one for one in gang.acquisition.refusals if one.service == target.service}
    if target.level is LocalityLevel.NODE:
        found: list[str] = []
        for node in target.nodes:
            why = node_blacklist.why_excluded(gang, policy, node, at_s)
            if why is None and node in refused:
                why = _counted(refused[node])
            if why is None:
                return None
            found.append(why)
        return f"no node that {target.role} was asked for on can take it: {_several(found)}"
    again = [
        one
        for one in refused.values()
        if one.is_unfit or node_blacklist.why_excluded(gang, policy, one.node, at_s) is not None
    ]
    worst = max(again, key=lambda one: one.times, default=None)
    if worst is None or worst.times < policy.refusals_per_node:
        return None
    return f"YARN keeps granting {worst.node} for {target.role}: {_counted(worst)}"


def refusals_text(gang: Gang) -> str:
    """``2 grants released (n1 has V100, the job wants A100)``; empty if none was."""
    misfits = gang.acquisition.misfits
    if not misfits:
        return ""
    whys = list(dict.fromkeys(one.why for one in gang.acquisition.refusals))
    grants = f"{misfits} grant{'s' if misfits != 1 else ''} released"
    return f"{grants} ({_several(whys)})" if whys else grants


def _known_as_unfit(gang: Gang, target: Target, node: NodeId) -> str | None:
    """Why this node was found unfit for the role in this attempt."""
    if not target.resources.gpus:
        return None
    for one in gang.acquisition.refusals:
        if one.is_unfit and one.node == node and one.role == target.role:
            return one.why
    return None


def _off_target(target: Target, event: ContainerGranted) -> str | None:
    if target.accepts(event.node, event.rack):
        return None
    return f"{event.node} in {event.rack} is outside of {target.service}"


def _breaks_shape(gang: Gang, member: Member, event: ContainerGranted) -> str | None:
    """Explain why the gang as a whole would break its rung with this grant in it."""
    rung, node, rack = gang.rung, event.node, event.rack
    if gang.resizing.growth is not None and gang.resizing.growth.rung is not None:
        rung = gang.resizing.growth.rung
    if rung is None:
        return None
    held = [(m.target.role, m.grant) for m in gang.everyone if m.grant is not None]
    there = {grant.node for _, grant in held}
    if rung.one_task_per_node and node in there:
        return f"{node} holds a task already, and the job spreads its tasks"
    for one, other in (*rung.anti_affinity, *((b, a) for a, b in rung.anti_affinity)):
        if member.target.role == one and any(r == other and g.node == node for r, g in held):
            return f"{node} holds a task of role {other}, and {one} keeps apart from it"
    if rung.node_limit is not None and len(there | {node}) > rung.node_limit:
        return f"{node} would be one node more than the {rung.node_limit} allowed"
    if rung.same_rack and any(grant.rack != rack for _, grant in held):
        return f"{node} is in {rack}, the others are in {held[0][1].rack}"
    return None


def _struck_in_vain(
    gang: Gang, policy: GangPolicy, member: Member, event: ContainerGranted, at_s: float
) -> str | None:
    """Why a lost or slow task does not come back to a node of which the job has had trouble, where
    the planner has found room elsewhere. An ask for any node cannot keep YARN from granting that
    one: after a few times it is taken."""
    node = event.node
    if gang.phase is not Phase.REPLACING or gang.rung is None:
        return None
    if node not in node_blacklist.suspects(gang, policy, at_s):
        return None
    expected = {one for ask in gang.rung.asks for one in ask.expected_nodes}
    if not expected or node in expected:
        return None
    service = member.target.service
    times = sum(
        r.times for r in gang.acquisition.refusals if (r.node, r.service) == (node, service)
    )
    if times >= policy.refusals_per_node:
        return None
    return f"{node} has a strike, and there is room elsewhere"


def _of_agent(
    gang: Gang, policy: GangPolicy, member: Member, event: AgentRegistered
) -> Misfit | None:
    """Whether the agent belongs to the container that was granted, and has the GPUs wanted."""
    grant = member.grant
    assert grant is not None
    if (event.node, event.container) != (grant.node, grant.container):
        where = f"granted as {grant.container} on {grant.node}"
        return Misfit(
            f"{where}, but its agent runs in {event.container} on {event.node}", is_unfit=False
        )
    why = _wrong_model(gang, policy, member.target, event)
    return Misfit(why, is_unfit=True) if why else None


def _wrong_model(
    gang: Gang, policy: GangPolicy, target: Target, event: AgentRegistered
) -> str | None:
    """Explain why the GPUs that this agent found are not those of the plan, the job or the rest of
    the gang; None if they are, or it is unknown. The planner may not have known the model."""
    node, found = event.node, event.gpu_model
    if not found:
        return None
    if target.gpu_model and not may_be_same(target.gpu_model, found):
        return f"{node} has {found}, the gang wants {target.gpu_model}"
    models = dict(policy.gpu_models)
    wanted = models.get(target.role, ANY_GPU_MODEL)
    if wanted == ANY_GPU_MODEL:
        return None
    if wanted != SAME_GPU_MODEL and not has_words(found, wanted):
        return f"{node} has {found}, the job wants {wanted}"
    for other in gang.everyone:
        is_held = other.state not in {MemberState.ASKED, MemberState.LOST}
        theirs = other.agent.gpu_model if other.agent is not None and is_held else ""
        is_alike = models.get(other.target.role) == wanted
        if theirs and is_alike and not is_same_model(theirs, found):
            return f"{node} has {found}, the others have {theirs}"
    return None


def _counted(one: Refusal) -> str:
    return f"{one.why} ({one.times} grant{'s' if one.times != 1 else ''} released)"


def _several(whys: list[str]) -> str:
    more = f" and {len(whys) - SHOWN} more" if len(whys) > SHOWN else ""
    return "; ".join(whys[:SHOWN]) + more
