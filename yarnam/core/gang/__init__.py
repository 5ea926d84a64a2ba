"""The gang machine: a pure function of a gang, an event and a policy. Start at ``machine``."""

from yarnam.core.gang.gang_status import describe
from yarnam.core.gang.machine import RECENT_EVENTS, step
from yarnam.core.gang.policy import GangPolicy, policy_for
from yarnam.core.gang.state import Gang, Member, MemberState, initial

__all__ = [
    "RECENT_EVENTS",
    "Gang",
    "GangPolicy",
    "Member",
    "MemberState",
    "describe",
    "initial",
    "policy_for",
    "step",
]
