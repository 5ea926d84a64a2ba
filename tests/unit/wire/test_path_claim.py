"""Claims on directories: where they lie, and what is accepted as one."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from hdfs_utils.errors import MalformedData
from yarnam.errors import WireMismatch
from yarnam.wire.shared.path_claim import (
    CLAIM_VERSION,
    MAX_CLAIM_BYTES,
    ClaimedPath,
    PathClaim,
    decode_claim,
    encode_claim,
)

CLAIM = PathClaim(
    "20260101-000000-abcdef", "me", "train", "http://rm:8088", "boot 1 2", "yarnam-key-1"
)


def test_a_claim_is_read_as_it_was_written() -> None:
    assert decode_claim(encode_claim(CLAIM)) == CLAIM


def test_the_claim_lies_in_the_directory_of_checkpoints_and_beside_an_output() -> None:
    checkpoints = ClaimedPath("checkpoint.directory", "hdfs:///ckpt/a/")
    assert checkpoints.claim_path("/ckpt/a") == "/ckpt/a/.yarnam-claim"
    output = ClaimedPath("data.outputs", "hdfs:///results/a", is_output=True)
    assert output.claim_path("/results/a") == "/results/.a.yarnam-claim"
    longest = output.claim_path(f"/results/{'x' * 255}")
    assert len(longest.rpartition("/")[2]) == 255


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"[]",
        b"{}",
        b"{" * 5000,
        b" " * (MAX_CLAIM_BYTES + 1),
        json.dumps({**asdict(CLAIM), "key": "../../other"}).encode(),
        json.dumps({**asdict(CLAIM), "key": None}).encode(),
        json.dumps({**asdict(CLAIM), "user": ""}).encode(),
        json.dumps({**asdict(CLAIM), "user": "x" * 300}).encode(),
        json.dumps({**asdict(CLAIM), "name": ["train"]}).encode(),
        json.dumps({**asdict(CLAIM), "version": -1}).encode(),
        json.dumps({**asdict(CLAIM), "version": True}).encode(),
    ],
)
def test_what_is_not_a_claim_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedData):
        decode_claim(content)


def test_a_newer_claim_is_not_taken_for_damaged() -> None:
    content = json.dumps({**asdict(CLAIM), "version": CLAIM_VERSION + 1}).encode()
    with pytest.raises(WireMismatch, match="newer"):
        decode_claim(content)
