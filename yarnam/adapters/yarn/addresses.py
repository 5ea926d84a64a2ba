"""Where a cluster's ResourceManagers and ZooKeeper are, by its Hadoop configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hdfs_utils import errors as hdfs
from hdfs_utils.config import configuration
from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.errors import BadConfig

if TYPE_CHECKING:
    from hdfs_utils.config.gateway import Gateway

with on_first_use():
    from hdfs_utils.config import gateway as hdfs_gateway


def read_settings(conf_dir: str | Path, *names: str) -> dict[str, str]:
    """Name to value over several files of a directory, as Hadoop itself reads them. Files that do
    not exist are skipped. Raises BadConfig."""
    with hdfs_errors("reading Hadoop's configuration"):
        return configuration.load(conf_dir, files=names)


def rm_web_urls(conf_dir: str | Path) -> tuple[str, ...]:
    """Base URLs of the ResourceManagers' web servers, all of them where there are several (HA).
    Raises BadConfig when the configuration names none."""
    settings = read_settings(conf_dir, "core-site.xml", "yarn-site.xml")
    is_https = settings.get("yarn.http.policy", "HTTP_ONLY") == "HTTPS_ONLY"
    scheme, key, port = (
        ("https", "yarn.resourcemanager.webapp.https.address", 8090)
        if is_https
        else ("http", "yarn.resourcemanager.webapp.address", 8088)
    )
    urls = tuple(f"{scheme}://{address}" for address in _rm_addresses(settings, key, port))
    if not urls:
        raise BadConfig(
            f"yarn-site.xml in {conf_dir} names no ResourceManager",
            hint=f"It needs {key} or yarn.resourcemanager.hostname.",
        )
    return urls


def rm_token_service(settings: Mapping[str, str]) -> str:
    """The service of a ResourceManager's delegation token: ``host:port`` of all
    ResourceManagers, with commas. A ResourceManager recognizes its tokens by it when it renews
    them."""
    return ",".join(_rm_addresses(settings, "yarn.resourcemanager.address", 8032))


def _rm_addresses(settings: Mapping[str, str], key: str, port: int) -> list[str]:
    """``host:port`` of each ResourceManager's service ``key``; ``port`` is Hadoop's default."""
    suffixes = [""]
    if settings.get("yarn.resourcemanager.ha.enabled", "") == "true":
        ids = settings.get("yarn.resourcemanager.ha.rm-ids", "").split(",")
        suffixes = [f".{rm.strip()}" for rm in ids if rm.strip()] or [""]
    found = []
    for suffix in suffixes:
        host = settings.get("yarn.resourcemanager.hostname" + suffix, "")
        address = settings.get(key + suffix, "") or host
        if address:
            found.append(address if ":" in address else f"{address}:{port}")
    return found


def proxy_hosts(conf_dir: str | Path) -> tuple[str, ...]:
    """The hosts of YARN's web proxy, through which the pages of applications are read: those of the
    ResourceManagers, unless it runs on its own. Raises BadConfig."""
    address = read_settings(conf_dir, "core-site.xml", "yarn-site.xml").get(PROXY_KEY, "")
    urls = (f"//{address}",) if address else rm_web_urls(conf_dir)
    return tuple(host for url in urls if (host := urlsplit(url).hostname))


def acl_settings(conf_dir: str | Path) -> tuple[bool, str]:
    """Whether YARN enforces ACLs on applications, and the ACL of its administrators. Raises
    BadConfig."""
    settings = read_settings(conf_dir, "core-site.xml", "yarn-site.xml")
    is_checked = settings.get("yarn.acl.enable", "false").strip().lower() == "true"
    return is_checked, settings.get("yarn.admin.acl", "*")  # Hadoop's defaults (yarn-default.xml)


PROXY_KEY = "yarn.web-proxy.address"

ZOOKEEPER_VARIABLE = "YARNAM_ZOOKEEPER"
"""``host:port,host:port``; ``tls://`` before it encrypts the connection; with ``/path`` for another
place than ``/yarnam``; ``none``: none."""

ZOOKEEPER_AUTH_VARIABLE = "YARNAM_ZOOKEEPER_AUTH_FILE"
"""A file with ``digest:user:password`` or ``kerberos``, where the ZooKeeper asks for it."""


GATEWAY_VARIABLE = "YARNAM_GATEWAY"
"""``https://host:port/gateway/TOPOLOGY`` of a gateway such as Apache Knox, through which alone the
client reaches the cluster. Of this machine, not of the site: jobs never have it."""

GATEWAY_TOKEN_VARIABLE = "YARNAM_GATEWAY_TOKEN_FILE"  # noqa: S105 - a name
"""A file with a bearer token for the gateway; otherwise ``~/.netrc`` has the user and the
password."""

_TLS = "tls://"


def zookeeper_address(conf_dir: str | Path, environ: Mapping[str, str]) -> str:
    """Where this cluster's jobs meet: ``host:port,host:port/yarnam/<cluster>``; empty means
    nowhere. By YARNAM_ZOOKEEPER, else the ensemble that YARN itself uses (``hadoop.zk.address``,
    before Hadoop 3 ``yarn.resourcemanager.zk-address``). Several clusters may share one. Raises
    BadConfig."""
    settings = read_settings(conf_dir, "core-site.xml", "yarn-site.xml")
    given = environ.get(ZOOKEEPER_VARIABLE, "").strip()
    if given.lower() == "none":
        return ""
    given = given or settings.get("hadoop.zk.address", "")
    given = given or settings.get("yarn.resourcemanager.zk-address", "")
    is_encrypted = settings.get("hadoop.zk.ssl.enabled", "").strip().lower() == "true"
    scheme = _TLS if given.startswith(_TLS) or is_encrypted else ""
    hosts, _, path = given.removeprefix(_TLS).partition("/")
    servers = [server.strip() for server in hosts.split(",") if server.strip()]
    if not servers:
        return ""
    return scheme + "/".join(
        [",".join(servers), path.strip("/") or "yarnam", _cluster_name(settings)]
    )


def site_gateway(environ: Mapping[str, str]) -> Gateway | None:
    """The gateway that YARNAM_GATEWAY names. Sends and reads nothing. Raises BadConfig."""
    address = environ.get(GATEWAY_VARIABLE, "").strip()
    if not address:
        return None
    try:
        return hdfs_gateway.gateway_at(
            address,
            token_file=environ.get(GATEWAY_TOKEN_VARIABLE, ""),
            netrc_file=environ.get("NETRC", ""),
        )
    except hdfs.BadConfig as error:
        hint = f"{GATEWAY_VARIABLE} names it: yarnam docs gateway"
        raise BadConfig(error.message, hint=hint) from error


def zookeeper_credentials(environ: Mapping[str, str]) -> str:
    """The content of the file that YARNAM_ZOOKEEPER_AUTH_FILE names; empty means none is named.
    Raises BadConfig, which does not tell the content."""
    return secret_file(environ, ZOOKEEPER_AUTH_VARIABLE)


def secret_file(environ: Mapping[str, str], variable: str) -> str:
    """The content of the file that the variable names, as above."""
    name = environ.get(variable, "")
    if not name:
        return ""
    try:
        return Path(name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(
            f"cannot read {name}, which {variable} names: {type(error).__name__}",
            hint="It holds digest:user:password: yarnam docs zookeeper",
        ) from error


def _cluster_name(settings: Mapping[str, str]) -> str:
    """Jobs of different clusters are not in each other's way."""
    for key in (
        "yarn.resourcemanager.cluster-id",
        "yarn.resourcemanager.hostname",
        "yarn.resourcemanager.address",
        "yarn.resourcemanager.webapp.address",
    ):
        host = re.sub(r":\d*$", "", settings.get(key, ""))
        name = re.sub(r"[^A-Za-z0-9._-]", "_", host)
        if name.strip("._"):
            return name
    return "default"
