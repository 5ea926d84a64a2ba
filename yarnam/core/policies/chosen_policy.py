"""The policy that an administrator has chosen for a queue: what is kept, and what of it is in
force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from yarnam.core.policies.policy_registry import DEFAULT, policy_named
from yarnam.core.policies.policy_settings import Settings, read_settings
from yarnam.core.policies.scheduling_policy import Policy
from yarnam.errors import UsageError


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """The stored choice. ``settings`` are as they were given; all others have their defaults."""

    policy: str
    settings: tuple[tuple[str, str], ...] = ()
    by: str = ""
    """Who chose it, by their own word."""
    at_s: float = 0.0
    """When: seconds since the epoch."""
    version: int = 0
    """The version of this choice, set by the store: each change has a greater one; 0 if none is
    stored."""
    trouble: str = ""
    """Why the stored choice cannot be read, set by the reader; empty if it can."""

    @property
    def is_default(self) -> bool:
        """Whether all jobs act as if nothing were chosen."""
        return not self.trouble and self.policy == DEFAULT


NOTHING_CHOSEN = QueuePolicy(DEFAULT)


@dataclass(frozen=True, slots=True)
class ActivePolicy:
    """The policy that jobs follow."""

    policy: Policy | None
    """``None`` for the order of arrival, for the reason in ``trouble``."""
    settings: Settings
    version: int
    trouble: str = ""

    @property
    def name(self) -> str:
        return self.policy.name if self.policy is not None else "by arrival"


def checked(name: str, given: Mapping[str, str], *, by: str = "", at_s: float = 0.0) -> QueuePolicy:
    """Validate an administrator's choice. Raises UsageError if the policy or a setting is unknown,
    or a value is out of range."""
    read_settings(name, policy_named(name).settings, given)
    return QueuePolicy(name, tuple(sorted(given.items())), by, at_s)


def active_policy(chosen: QueuePolicy | None) -> ActivePolicy | None:
    """The active policy; ``None`` if only the default is chosen, so that every job acts on its own.
    With a choice that this version of yarnam cannot carry out, jobs go by arrival, and report
    why."""
    if chosen is None or chosen.is_default:
        return None
    trouble = chosen.trouble
    if not trouble:
        try:
            policy = policy_named(chosen.policy)
            settings = read_settings(policy.name, policy.settings, dict(chosen.settings))
        except UsageError as error:
            trouble = error.message
        else:
            return ActivePolicy(policy, settings, chosen.version)
    return ActivePolicy(None, {}, chosen.version, f"the queue's policy is not usable: {trouble}")
