"""The claim of a job on a directory that it writes to: a small file, which only one job can create.

::

    /checkpoints/my-job/.yarnam-claim     in the directory of checkpoints, which may be all of it
                                          that the user may write to
    /results/.my-job.yarnam-claim         beside an output, which does not exist until it is whole
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hdfs_utils import uri as uris
from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import decode_record
from yarnam.core.model.job_spec import JobSpec
from yarnam.errors import WireMismatch
from yarnam.wire.codec import encode

CLAIM_NAME = ".yarnam-claim"
CLAIM_VERSION = 1

MAX_CLAIM_BYTES = 8192
"""The most bytes of a claim; ours have some 300. Others may write into a shared directory."""

_MAX_NAME = 256
_MAX_TEXT = 1024
_KEY = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
"""The key becomes a part of a path."""


@dataclass(frozen=True, slots=True)
class PathClaim:
    """The job that holds a directory. ``key`` names the job's own directory; the tag of it is among
    those of YARN's application."""

    key: str
    user: str
    name: str
    cluster: str
    """The ResourceManager's URL."""
    submitter: str = ""
    """The process that submits; empty if unknown. See ``yarnam.adapters.submitter``."""
    idempotency: str = ""
    """The application tag of the job's idempotency key; empty if it has none."""
    version: int = CLAIM_VERSION


@dataclass(frozen=True, slots=True)
class ClaimedPath:
    """A directory that a job writes to, by its key in the spec."""

    spec_key: str
    uri: str
    is_output: bool = False

    def claim_path(self, path: str) -> str:
        """The file of the claim; ``path`` is the normalised path of ``uri`` on its file system."""
        if not self.is_output:
            return uris.join(path, CLAIM_NAME)
        return uris.join(uris.parent(path), uris.cut_name(f".{uris.name(path)}", CLAIM_NAME))


def claimed_paths(job: JobSpec) -> tuple[ClaimedPath, ...]:
    """The directories that only one job at a time may write to. Those on the nodes' own disks are
    not shared."""
    found = (
        ClaimedPath("checkpoint.directory", job.checkpoint.directory),
        ClaimedPath("data.outputs", job.output, is_output=True),
    )
    return tuple(each for each in found if each.uri and not each.uri.startswith("file:"))


def encode_claim(claim: PathClaim) -> bytes:
    return encode(claim)


def decode_claim(data: bytes) -> PathClaim:
    """Raises MalformedData; WireMismatch for a claim that a newer yarnam has written."""
    record = decode_record(data, max_bytes=MAX_CLAIM_BYTES, max_depth=2)
    version = record.integer("version", least=1)
    if version > CLAIM_VERSION:
        raise WireMismatch(
            f"a newer version of yarnam has written it (claim version {version})",
            hint="Update yarnam on this machine.",
        )
    claim = PathClaim(
        record.text("key", pattern=_KEY),
        record.text("user", max_length=_MAX_NAME),
        record.text("name", max_length=_MAX_TEXT),
        record.text("cluster", max_length=_MAX_TEXT),
        record.text("submitter", max_length=_MAX_TEXT, default=""),
        record.text("idempotency", max_length=_MAX_TEXT, default=""),
    )
    if not claim.user:
        raise MalformedData("it names no user")
    return claim
