"""When a job's delegation tokens are replaced, from their life and the time.

Times are in seconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass

REPLACED_AT = 0.75
"""Of their life, as Spark (spark.security.credentials.renewalRatio) and Flink
(security.kerberos.tokens.renewal.time-ratio) have it."""

RETRY_SHARE = 0.1
"""A share of the tokens' remaining life: ten tries and more before the end, each sooner than the
last."""

SHORTEST_PAUSE_S = 10.0
"""A try costs a second of CPU. It also continues so after the end: what comes late still helps the
next process, and the next attempt."""

LONGEST_PAUSE_S = 3600.0
"""As Spark's spark.security.credentials.retryWait."""


@dataclass(frozen=True, slots=True)
class TokenLife:
    """The life of the tokens in use.

    Attributes:
        since_s: when the job got them.
        until_s: when the first of them ends.
    """

    since_s: float
    until_s: float


def replace_at(tokens: TokenLife) -> float:
    """When to get new ones."""
    return tokens.since_s + REPLACED_AT * max(0.0, tokens.until_s - tokens.since_s)


def retry_at(tokens: TokenLife, now_s: float) -> float:
    """When to try again, after a try that failed now."""
    pause_s = RETRY_SHARE * (tokens.until_s - now_s)
    return now_s + min(LONGEST_PAUSE_S, max(SHORTEST_PAUSE_S, pause_s))
