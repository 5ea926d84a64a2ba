"""Calls that the native client lacks, by whichever protocol the site permits.

RPC where there is neither Kerberos nor wire encryption (:mod:`hdfs_utils.protocols.namenode`);
else the NameNode's HTTP side. A path of a viewfs is asked of the NameNode that its mount names.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from hdfs_utils import uri as uris
from hdfs_utils.config.nameservices import Nameservices
from hdfs_utils.errors import HdfsError, NotSupported, Unavailable
from hdfs_utils.filesystem import BlockLocation, TimeLimits

if TYPE_CHECKING:
    from hdfs_utils.protocols.namenode import LocatedFile, NameNodeRpc
    from hdfs_utils.protocols.webhdfs_rest import WebHdfsClient

# From this many files of one directory on, one listing with blocks is cheaper than a question each.
_LISTING_PAYS = 4


class MetadataClient:
    """Asks for blocks, checksums and concat. Safe to share between threads.

    Args:
        names: which NameNodes answer for a path.
        properties: of the site.
        user: the caller, and whom it acts for (empty: itself).
        limits: the time limits.
        web: the client of the HTTP side for an authority, or None where there is none.
    """

    def __init__(
        self,
        names: Nameservices,
        properties: Mapping[str, str],
        user: tuple[str, str],
        limits: TimeLimits,
        web: Callable[[str], WebHdfsClient | None],
    ) -> None:
        from hdfs_utils.protocols.namenode import is_rpc_allowed, reaches_by_host_name

        self._names = names
        self._user = user
        self._limits = limits
        self._web = web
        self.has_rpc = is_rpc_allowed(properties)
        self._by_host_name = reaches_by_host_name(properties)
        self._lock = threading.Lock()
        self._nodes: dict[str, NameNodeRpc] = {}

    def block_locations(self, path: str) -> tuple[BlockLocation, ...]:
        resolved = self._names.resolve(path)
        if not self.has_rpc:
            return self._http(resolved.authority, "block locations", path).block_locations(
                resolved.path
            )
        found = self._rpc(resolved.authority).blocks(resolved.path)
        return tuple(
            BlockLocation(
                block.offset,
                block.length,
                tuple(node.host for node in block.nodes),
                block.is_corrupt,
                tuple(node.rack for node in block.nodes),
            )
            for block in found.blocks
        )

    def concat(self, target: str, sources: Sequence[str]) -> None:
        resolved = self._names.resolve(target)
        plain = [self._names.resolve(source).path for source in sources]
        try:
            if self.has_rpc:
                self._rpc(resolved.authority).concat(resolved.path, plain)
            else:
                self._http(resolved.authority, "concat", target).concat(resolved.path, plain)
        except HdfsError as error:
            if isinstance(error, Unavailable) or type(error) is not HdfsError:
                raise
            # HadoopIllegalArgumentException: a zone, a policy, another directory.
            raise NotSupported(error.message, path=target, operation="concat") from error

    def name_node(self, path: str, operation: str) -> tuple[NameNodeRpc, str]:
        """Who answers for a path, and the path there.

        Raises:
            NotSupported: with Kerberos or wire encryption.
        """
        resolved = self._names.resolve(path)
        if not self.has_rpc:
            message = "not available with Kerberos or wire encryption"
            raise NotSupported(message, path=path, operation=operation)
        return self._rpc(resolved.authority), resolved.path

    def crc32c(self, paths: Sequence[str]) -> tuple[int, ...]:
        """CRC32C of each file from what the DataNodes stored.

        Raises:
            NotSupported: the site has Kerberos or wire encryption, or the files are not plain.
            CorruptData: no replica of a block answers for it.
        """
        from hdfs_utils.protocols import datanode

        if not self.has_rpc:
            message = "checksums are not available with Kerberos or wire encryption"
            raise NotSupported(message, operation="checksum")
        located = self._located(paths)
        answers = datanode.of_files(
            [located[path] for path in paths],
            self._limits.data_s,
            by_host_name=self._by_host_name,
        )
        return tuple(crc for _, crc in answers)

    def _located(self, paths: Sequence[str]) -> dict[str, LocatedFile]:
        found: dict[str, LocatedFile] = {}
        for directory, group in groupby(paths, key=uris.parent):
            wanted = set(group)
            resolved = self._names.resolve(directory)
            node = self._rpc(resolved.authority)
            if len(wanted) >= _LISTING_PAYS:
                for file in node.list_located(resolved.path):
                    path = uris.join(directory, uris.name(file.path))
                    if path in wanted:
                        found[path] = file
            for path in wanted - found.keys():
                found[path] = node.blocks(self._names.resolve(path).path)
        return found

    def _rpc(self, authority: str) -> NameNodeRpc:
        from hdfs_utils.protocols.namenode import NameNodeRpc

        with self._lock:
            if authority not in self._nodes:
                addresses = self._names.rpc_addresses(authority)
                self._nodes[authority] = NameNodeRpc(addresses, self._user, self._limits.metadata_s)
            return self._nodes[authority]

    def _http(self, authority: str, operation: str, path: str) -> WebHdfsClient:
        web = self._web(authority)
        if web is None:
            message = "dfs.namenode.http-address is not configured"
            raise NotSupported(message, path=path, operation=operation)
        return web
