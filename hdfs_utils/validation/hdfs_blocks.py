"""What HDFS itself knows of bad blocks: asked of the NameNode, without reading anything."""

from __future__ import annotations

import contextlib
import http.client
import re
from dataclasses import dataclass
from urllib.parse import urlencode

from hdfs_utils.errors import HdfsError, MalformedData, NotSupported, Unavailable
from hdfs_utils.filesystem import FileSystem
from hdfs_utils.protocols.untrusted import read_at_most
from hdfs_utils.validation.findings import Reason

# As in `blk_1073741861<tab>1<tab>/data/part-1`: Hadoop 3.4.1; older ones have no number there.
# At most 100 lines.
_MAX_ANSWER_BYTES = 4 << 20
_LINE = re.compile(r"^(blk_-?\d+)\t(?:\d+\t)?(/.*)$")


@dataclass(frozen=True, slots=True)
class BadBlock:
    """A block without a good replica."""

    block: str
    path: str


def parse_fsck(text: str) -> tuple[BadBlock, ...]:
    """From the answer of the NameNode's fsck servlet.

    Raises:
        NotSupported: the answer is none of its lists (no permission, an older Hadoop).
    """
    found = tuple(BadBlock(m[1], m[2]) for line in text.splitlines() if (m := _LINE.match(line)))
    if not found and "has no CORRUPT files" not in text and " 0 CORRUPT files" not in text:
        # The lines about itself begin with FSCK: what it says to the question is among the rest.
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("FSCK")]
        said = lines[0] if lines else "nothing"
        raise NotSupported(f"fsck answered: {said[:200]}", operation="fsck")
    return found


def bad_blocks(address: str, path: str, user: str, timeout_s: float) -> tuple[BadBlock, ...]:
    """Blocks of files below ``path`` that have no good replica; at most 100, as fsck lists them.

    Args:
        address: ``host:port`` of the NameNode's HTTP server (``dfs.namenode.http-address``).
        user: the caller (simple authentication).
        timeout_s: of each wait for the network, in seconds.

    Raises:
        Unavailable: no answer.
        NotSupported: it does not answer this question.
    """
    query = urlencode({"ugi": user, "path": path, "listcorruptfileblocks": "1"})
    host = http.client.HTTPConnection(address, timeout=timeout_s)
    try:
        host.request("GET", f"/fsck?{query}")
        answer = host.getresponse()
        text = read_at_most(answer, _MAX_ANSWER_BYTES).decode(errors="replace")
    except (OSError, http.client.HTTPException, MalformedData) as error:
        raise Unavailable(f"no answer from http://{address}: {error}", operation="fsck") from error
    finally:
        host.close()
    if answer.status != 200:
        raise NotSupported(f"HTTP {answer.status} from http://{address}/fsck", operation="fsck")
    return parse_fsck(text)


def examine_replicas(
    fs: FileSystem, path: str, offset: int, length: int
) -> tuple[Reason, str] | None:
    """Why reading this part failed: whether HDFS has no good replica of it. ``None`` means it has.

    Hadoop's own client is made to read the part first, because it tells the NameNode of replicas
    whose checksum does not fit, and of those that are gone; else the NameNode knows nothing yet.
    """
    with contextlib.suppress(HdfsError):
        fs.report_replicas(path, offset, length)
    try:
        blocks = fs.block_locations(path)
    except HdfsError:
        return None
    for block in blocks:
        where = f"the block at byte {block.offset}"
        if not block.hosts:
            return Reason.BLOCK_MISSING, f"HDFS has no replica of {where}"
        if block.is_corrupt:
            hosts = ", ".join(block.hosts)
            return Reason.BLOCK_CORRUPT, f"HDFS has no good replica of {where} (bad: {hosts})"
    return None


def bad_blocks_of_site(
    path: str, addresses: tuple[str, ...], user: str, timeout_s: float = 10.0
) -> tuple[BadBlock, ...]:
    """From the first NameNode that answers (a standby does not).

    Raises HdfsError of the last one, NotSupported without addresses.
    """
    failure: HdfsError = NotSupported("no HTTP address of a NameNode to ask", operation="fsck")
    for address in addresses:
        try:
            return bad_blocks(address, path, user, timeout_s)
        except HdfsError as error:
            failure = error
    raise failure
