"""A running job's claims: confirmed at the start of each AM attempt, released at its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hdfs_utils.errors import Unavailable as HdfsUnavailable
from tests.fakes.files import MemoryFiles, fail_on
from tests.unit.client.world import job_spec
from yarnam.adapters.hdfs import claim_files
from yarnam.adapters.hdfs.claim_files import ClaimFile, HeldClaims
from yarnam.core.model.job_spec import CheckpointSpec
from yarnam.errors import PathTaken
from yarnam.wire.shared.path_claim import PathClaim, claimed_paths, encode_claim

KEY, OTHER_KEY = "20260101-000000-000001", "20260101-000000-000002"
JOB = job_spec(output="/results/a", checkpoint=CheckpointSpec("hdfs://other/ckpt/a"))
OWN = PathClaim(KEY, "me", "hello", "http://rm:8088")
CKPT, OUTPUT = "/ckpt/a/.yarnam-claim", "/results/.a.yarnam-claim"


class OtherFiles(MemoryFiles):
    uri = "hdfs://other"


class Cluster:
    """The file systems of the job: its own, and the one of its checkpoints."""

    def __init__(self) -> None:
        self.files, self.other = MemoryFiles(), OtherFiles()
        self.claims = HeldClaims(self.files, JOB, KEY, OWN.cluster, lambda _: self.other)

    def put(self, claim: PathClaim) -> None:
        self.other.write_bytes(CKPT, encode_claim(claim), overwrite=True)
        self.files.write_bytes(OUTPUT, encode_claim(claim), overwrite=True)


def test_its_own_claims_are_confirmed_and_released() -> None:
    cluster = Cluster()
    cluster.put(OWN)
    cluster.claims.confirm()
    cluster.claims.release()
    assert not cluster.files.exists(OUTPUT)
    assert not cluster.other.exists(CKPT)


def test_claims_that_are_gone_are_made_again() -> None:
    cluster = Cluster()
    cluster.claims.confirm()
    for files, target in zip((cluster.other, cluster.files), claimed_paths(JOB), strict=True):
        found = ClaimFile(files, target.uri, target).read()
        assert found is not None
        assert found.claim == OWN


def test_another_jobs_claim_ends_this_job_and_stays() -> None:
    cluster = Cluster()
    cluster.put(OWN)
    other = replace(OWN, key=OTHER_KEY, user="you", name="theirs")
    cluster.other.write_bytes(CKPT, encode_claim(other), overwrite=True)
    with pytest.raises(PathTaken, match=rf"hdfs://other/ckpt/a .* theirs of you \({OTHER_KEY}\)"):
        cluster.claims.confirm()
    cluster.claims.release()
    assert cluster.other.exists(CKPT)
    assert not cluster.files.exists(OUTPUT)


@pytest.mark.parametrize("content", [b"garbage", b'{"version":99}', b"[" * 50_000])
def test_a_claim_that_cannot_be_read_stops_no_job(content: bytes) -> None:
    cluster = Cluster()
    cluster.other.write_bytes(CKPT, content)
    cluster.claims.confirm()
    cluster.claims.release()
    assert cluster.other.read_bytes(CKPT) == content


@pytest.mark.parametrize("operation", ["stat", "read", "delete", "rename"])
def test_an_hdfs_that_is_away_stops_neither_start_nor_end(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_files, "RELEASE_LIMIT_S", 0.0)
    cluster = Cluster()
    failing: Any = fail_on(operation, HdfsUnavailable("the NameNode is away"), times=99)
    cluster.other.fail = failing
    cluster.claims.confirm()
    cluster.claims.release()
    assert not cluster.files.exists(OUTPUT)


def test_a_claim_is_released_when_hdfs_is_back() -> None:
    cluster = Cluster()
    cluster.put(OWN)
    cluster.other.fail = fail_on("read", HdfsUnavailable("the NameNode restarts"), times=3)
    cluster.claims.release()
    assert not cluster.other.exists(CKPT)
    assert not cluster.files.exists(OUTPUT)
