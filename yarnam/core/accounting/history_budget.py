"""Decide how much of other users' histories is read: users can put anything of any size there."""

from __future__ import annotations

from collections.abc import Mapping

MOST_INDEX_BYTES = 16 << 20
"""The most bytes of another user's index: 40,000 jobs in one month."""

MOST_RECORDS = 1_000
"""The most single records of one other user. yarnam puts them together from 256 on."""

MOST_RECORD_BYTES = 4 << 20
"""The most bytes of the single records of one other user. What is made to be slow takes two seconds
a megabyte, a hundred times as long as what yarnam writes."""

MOST_BYTES = 64 << 20
"""The most bytes of all other users' files in one read: some 160,000 jobs."""


def fair_shares(sizes: Mapping[str, int], most: int = MOST_BYTES) -> dict[str, int]:
    """The bytes that may be read of each user, given the bytes that each has. No user gets more
    while another could use it who has less (max-min fairness), so a flood crowds out only
    itself."""
    shares: dict[str, int] = {}
    left = most
    for number, (user, size) in enumerate(sorted(sizes.items(), key=lambda one: (one[1], one[0]))):
        shares[user] = min(size, left // (len(sizes) - number))
        left -= shares[user]
    return shares
