"""Merging blacklists, and what follows from the claims about a file. Pure.

The merge is the join of a semilattice (commutative, associative, idempotent), so it does not matter
who merges what with what, in which order, or how often: nothing is lost and nothing is doubled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hdfs_utils.blacklist.entries import Blacklist, Claim, Entry, Key, State

_Identity = tuple[State, str, str]


def merge_blacklists(*blacklists: Blacklist) -> Blacklist:
    """All that any of them knows."""
    return gather_entries(entry for blacklist in blacklists for entry in blacklist.entries.values())


def gather_entries(entries: Iterable[Entry]) -> Blacklist:
    """A blacklist of entries; those of one key become one."""
    by_key: dict[Key, list[Claim]] = {}
    for entry in entries:
        by_key.setdefault(entry.key, []).extend(entry.claims)
    return Blacklist({key: Entry(key, join_claims(by_key[key])) for key in sorted(by_key)})


def join_claims(claims: Iterable[Claim]) -> frozenset[Claim]:
    """One claim for each state, user and job: from the first time to the last, and the words of
    the last."""
    found: dict[_Identity, Claim] = {}
    for claim in claims:
        identity = (claim.state, claim.by, claim.job)
        found[identity] = _join(found[identity], claim) if identity in found else claim
    return frozenset(found.values())


def _join(one: Claim, other: Claim) -> Claim:
    newest = max(one, other, key=lambda c: (c.last_s, c.expires_s, c.reason, c.evidence))
    return replace(newest, first_s=min(one.first_s, other.first_s))


def state_of(claims: Iterable[Claim], now_s: float) -> State:
    """The state that follows from the claims newer than the last clearing: proved comes before
    suspected."""
    living = [c for c in claims if not c.expires_s or c.expires_s > now_s]
    cleared_s = max((c.last_s for c in living if c.state is State.CLEARED), default=float("-inf"))
    states = {c.state for c in living if c.state is not State.CLEARED and c.last_s > cleared_s}
    if State.PROVED in states:
        return State.PROVED
    return State.SUSPECTED if State.SUSPECTED in states else State.CLEARED


def state_in_open_directory(claims: Iterable[Claim], now_s: float) -> State:
    """The same where anybody may write: never more than suspected, and each user's clearing is
    about the own claims alone."""
    by_user: dict[str, list[Claim]] = {}
    for claim in claims:
        by_user.setdefault(claim.by, []).append(claim)
    states = {state_of(own, now_s) for own in by_user.values()}
    return State.CLEARED if states <= {State.CLEARED} else State.SUSPECTED


def leading_claim(claims: Iterable[Claim], state: State) -> Claim | None:
    """The newest claim of a state: whose words to show."""
    return max((c for c in claims if c.state is state), default=None, key=lambda c: (c.last_s, c))
