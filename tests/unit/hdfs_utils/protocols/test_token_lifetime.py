"""When a delegation token ends, by the identifiers of HDFS and YARN."""

from __future__ import annotations

import pytest

from hdfs_utils.config.delegation_tokens import HDFS_KIND, DelegationToken
from hdfs_utils.protocols.protobuf import message
from hdfs_utils.protocols.token_lifetime import max_date_s, usable_until_s

ISSUED_S = 1_700_000_000.0


def hdfs_identifier(owner: str, renewer: str, max_date_s: float) -> bytes:
    """As AbstractDelegationTokenIdentifier.write: a version, three texts, dates in ms, numbers."""
    texts = b"".join(bytes([len(text)]) + text.encode() for text in (owner, renewer, ""))
    dates = b"".join(
        # WritableUtils.writeVLong of a number of 6 bytes
        bytes([256 - 112 - 6]) + round(date_s * 1000).to_bytes(6, "big")
        for date_s in (ISSUED_S, max_date_s)
    )
    return b"\0" + texts + dates + b"\x07\x02"


def token(identifier: bytes) -> DelegationToken:
    return DelegationToken("KIND", "service", identifier, b"secret")


def test_of_hdfs() -> None:
    assert max_date_s(token(hdfs_identifier("alice", "yarn", 1_700_604_800.25))) == 1_700_604_800.25


def test_of_yarn() -> None:
    identifier = message(
        (1, "alice"), (2, "yarn"), (3, ""),
        (4, round(ISSUED_S * 1000)), (5, 1_700_604_800_000), (6, 7), (7, 2),
    )  # fmt: skip
    assert max_date_s(token(identifier)) == 1_700_604_800


@pytest.mark.parametrize(
    "identifier",
    [b"", b"\0", b"\0\x05ali", b"alice", message((1, "alice")), message((5, "soon")), b"\x0a\xff"],
)
def test_what_does_not_say_it(identifier: bytes) -> None:
    assert max_date_s(token(identifier)) is None


def test_hdfs_natives_client_takes_none_in_its_last_minute() -> None:
    found = DelegationToken(HDFS_KIND, "nn", hdfs_identifier("alice", "yarn", 1.8e9), b"secret")
    assert usable_until_s(found) == 1.8e9 - 60
    rm = DelegationToken("RM_DELEGATION_TOKEN", "rm", found.identifier, b"secret")
    assert usable_until_s(rm) == 1.8e9
    assert usable_until_s(DelegationToken(HDFS_KIND, "nn", b"", b"secret")) is None
