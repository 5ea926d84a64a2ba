"""Resolves a path to its NameNodes: one host, an HA nameservice, or a viewfs mount table."""

from __future__ import annotations

from collections.abc import Mapping

from hdfs_utils import uri as uris
from hdfs_utils.config import configuration as hadoop_conf
from hdfs_utils.errors import InvalidPath, NotFound
from hdfs_utils.uri import Uri

DEFAULT_PORT = 8020  # of a NameNode's RPC, where the URI has none
_MOUNTS = "fs.viewfs.mounttable"
NO_MOUNT = "/.reserved/no-mount"
"""Nothing is there, and a NameNode refuses to make anything below ``/.reserved``."""


def parts_of(target: str, properties: Mapping[str, str]) -> tuple[str, ...]:
    """``scheme://authority`` of the file systems behind one: of a viewfs, those of its mounts.

    Raises:
        InvalidPath: it is no URI.
    """
    given = uris.parse(target)
    found = [given]
    if given.scheme == "viewfs":
        found = [mounted for _, mounted in _links(given, properties)]
    return tuple(dict.fromkeys(f"{one.scheme}://{one.authority}" for one in found))


class Nameservices:
    """Resolves paths of one file system by the site's properties.

    Args:
        target: ``hdfs://authority`` or ``viewfs://mount-table``.
        properties: of the site.
    """

    def __init__(self, target: Uri, properties: Mapping[str, str]) -> None:
        self._target = target
        self._properties = properties
        self._links = _links(target, properties) if target.scheme == "viewfs" else ()

    def resolve(self, path: str) -> Uri:
        """The URI on an ``hdfs://`` that a path stands for.

        Raises:
            NotFound: no mount of the viewfs has it.
        """
        if self._target.scheme != "viewfs":
            return Uri("hdfs", self._target.authority, path)
        for mount, target in self._links:
            if path == mount or path.startswith(mount.rstrip("/") + "/"):
                rest = path[len(mount) :].lstrip("/")
                found = target.join(rest) if rest else target
                return Uri("hdfs", found.authority, found.path)
        raise NotFound("not below any mount of this viewfs", path=path)

    @property
    def is_paired(self) -> bool:
        """Whether a NameNode of this file system has a standby (of a viewfs: any of them)."""
        names = {self._target.authority, *(target.authority for _, target in self._links)}
        return any(len(self.rpc_addresses(name)) > 1 for name in names)

    def rpc_addresses(self, authority: str) -> tuple[tuple[str, int], ...]:
        """``(host, port)`` of the NameNodes' RPC servers."""
        found = []
        for text in self._per_node("dfs.namenode.rpc-address", authority) or (authority,):
            host, _, port = text.rpartition(":")
            has_port = host and port.isdecimal()  # "[::1]" has none
            name, number = (host, int(port)) if has_port else (text, DEFAULT_PORT)
            found.append((name.strip("[]"), number))
        return tuple(found)

    def web_addresses(self, authority: str) -> tuple[str, ...]:
        """``scheme://host:port`` of the NameNodes' HTTP servers; none where none is known."""
        is_secure = self._properties.get("dfs.http.policy", "HTTP_ONLY") == "HTTPS_ONLY"
        scheme, key = (
            ("https", "dfs.namenode.https-address")
            if is_secure
            else ("http", "dfs.namenode.http-address")
        )
        found = self._per_node(key, authority)
        if not found and self._is_default(authority) and key in self._properties:
            host, _, port = self._properties[key].rpartition(":")
            if host in ("", "0.0.0.0", "[::]"):  # noqa: S104 - what the configuration says, not a bind
                host = self.rpc_addresses(authority)[0][0]
                host = f"[{host}]" if ":" in host else host
            found = (f"{host}:{port}",)
        return tuple(f"{scheme}://{address}" for address in found)

    def _is_default(self, authority: str) -> bool:
        # The configured address is that of the configured NameNode, of no other.
        names = {default_authority(self._properties)}
        names.add(self._properties.get("dfs.namenode.rpc-address", ""))
        return authority in names

    def _per_node(self, key: str, authority: str) -> tuple[str, ...]:
        names = self._properties.get(f"dfs.ha.namenodes.{authority}", "")
        keys = [f"{key}.{authority}.{name.strip()}" for name in names.split(",") if name.strip()]
        return tuple(self._properties[name] for name in keys if name in self._properties)


def default_authority(properties: Mapping[str, str]) -> str:
    """The authority of ``fs.defaultFS``; empty if that is not an HDFS (``s3a://bucket``)."""
    try:
        return uris.parse(properties.get(hadoop_conf.DEFAULT_FS) or "/").authority
    except InvalidPath:
        return ""


def with_port(target: Uri, properties: Mapping[str, str]) -> Uri:
    """The URI with the port of its NameNode. A nameservice and a mount table have none."""
    names = properties.get("dfs.nameservices", "").split(",")
    is_service = target.authority in {name.strip() for name in names}
    is_service = is_service or f"dfs.ha.namenodes.{target.authority}" in properties
    if target.scheme != "hdfs" or not target.authority or is_service or ":" in target.authority:
        return target
    return Uri(target.scheme, f"{target.authority}:{DEFAULT_PORT}", target.path)


def mount_properties(target: Uri, properties: Mapping[str, str]) -> dict[str, str]:
    """The mount table as the native client wants it: its targets with their ports, and a fallback.
    Where the table has none, it is a path that no NameNode makes anything at."""
    prefix = f"{_MOUNTS}.{target.authority or 'default'}.link"
    links = _links(target, properties)
    found = {
        key: str(with_port(uris.parse(value), properties))
        for key, value in properties.items()
        if key.startswith(f"{prefix}.")
    }
    fallback = next((one for mount, one in links if mount == "/"), None)
    if fallback is None and links:
        fallback = Uri("hdfs", links[0][1].authority, NO_MOUNT)
    if fallback is not None:
        found[f"{prefix}Fallback"] = str(with_port(fallback, properties))
    return found


def _links(target: Uri, properties: Mapping[str, str]) -> tuple[tuple[str, Uri], ...]:
    """Mounts, the longest first, the fallback last."""
    prefix = f"{_MOUNTS}.{target.authority or 'default'}.link"
    found = []
    for key, value in properties.items():
        if key.startswith(f"{prefix}."):
            found.append((uris.normalise(key[len(prefix) + 1 :]), uris.parse(value)))
    found.sort(key=lambda link: len(link[0]), reverse=True)
    # With linkMergeSlash the whole name space is one file system.
    for whole in ("MergeSlash", "Fallback"):
        if named := properties.get(f"{prefix}{whole}"):
            found.append(("/", uris.parse(named)))
    return tuple(found)
