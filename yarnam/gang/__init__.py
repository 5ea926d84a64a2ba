"""The gang machine: a pure function of a gang, an event and a policy. Start at ``machine``."""

from yarnam.gang.describe import describe
from yarnam.gang.machine import step
from yarnam.gang.state import Gang, GangPolicy, Member, MemberState, initial, policy_for

__all__ = [
    "Gang",
    "GangPolicy",
    "Member",
    "MemberState",
    "describe",
    "initial",
    "policy_for",
    "step",
]
