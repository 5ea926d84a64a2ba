"""Reads Hadoop's ``*-site.xml`` files: properties, XIncludes, ``${...}``, the RM's addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse
from xml.etree import ElementTree as ET

from yarnam.errors import BadConfig

_XINCLUDE = "{http://www.w3.org/2001/XInclude}include"
_VARIABLE = re.compile(r"\$\{([^}$\s]+)\}")
_MAX_DEPTH = 8
"""Of nested XIncludes and of variables in variables (Hadoop allows 20 of the latter)."""


@dataclass(frozen=True, slots=True)
class Property:
    name: str
    value: str
    is_final: bool = False


def read_properties(path: Path) -> tuple[Property, ...]:
    """The properties of one file, in order, XIncludes resolved. Raises BadConfig."""
    return tuple(_read(path, depth=0))


def read_settings(conf_dir: str | Path, *names: str) -> dict[str, str]:
    """Name to value over several files of a directory; of two values the last one counts, unless
    an earlier one is final. Files that do not exist are skipped. Raises BadConfig."""
    settings: dict[str, str] = {}
    final: set[str] = set()
    for name in names:
        path = Path(conf_dir) / name
        for prop in read_properties(path) if path.is_file() else ():
            if prop.name not in final:
                settings[prop.name] = prop.value
                if prop.is_final:
                    final.add(prop.name)
    return settings


def expanded(settings: Mapping[str, str], name: str, default: str = "") -> str:
    """The value with ``${other}`` replaced, as Hadoop does. An unknown variable stays as it is."""
    value = settings.get(name, default)
    for _ in range(_MAX_DEPTH):
        replaced = _VARIABLE.sub(lambda match: settings.get(match[1], match[0]), value)
        if replaced == value:
            break
        value = replaced
    return value


def rm_web_urls(conf_dir: str | Path) -> tuple[str, ...]:
    """Base URLs of the ResourceManagers' web servers, all of them where there are several (HA).

    Raises BadConfig when the configuration names none.
    """
    settings = read_settings(conf_dir, "core-site.xml", "yarn-site.xml")
    is_https = expanded(settings, "yarn.http.policy", "HTTP_ONLY") == "HTTPS_ONLY"
    scheme, key, port = (
        ("https", "yarn.resourcemanager.webapp.https.address", 8090)
        if is_https
        else ("http", "yarn.resourcemanager.webapp.address", 8088)
    )
    suffixes = [""]
    if expanded(settings, "yarn.resourcemanager.ha.enabled") == "true":
        ids = expanded(settings, "yarn.resourcemanager.ha.rm-ids").split(",")
        suffixes = [f".{rm.strip()}" for rm in ids if rm.strip()] or [""]
    urls = []
    for suffix in suffixes:
        address = expanded(settings, key + suffix)
        host = expanded(settings, "yarn.resourcemanager.hostname" + suffix)
        if not address and host:
            address = f"{host}:{port}"
        if address:
            urls.append(f"{scheme}://{address if ':' in address else f'{address}:{port}'}")
    if not urls:
        raise BadConfig(
            f"yarn-site.xml in {conf_dir} names no ResourceManager",
            hint=f"It needs {key} or yarn.resourcemanager.hostname.",
        )
    return tuple(urls)


ZOOKEEPER_VARIABLE = "YARNAM_ZOOKEEPER"
"""``host:port,host:port``; with ``/path`` for another place than ``/yarnam``; ``none``: none."""

ZOOKEEPER_AUTH_VARIABLE = "YARNAM_ZOOKEEPER_AUTH_FILE"
"""A file with ``digest:user:password``, where the ZooKeeper asks for it."""


def zookeeper_address(conf_dir: str | Path, environ: Mapping[str, str]) -> str:
    """Where this cluster's jobs meet: ``host:port,host:port/yarnam/<cluster>``; empty: nowhere.

    By YARNAM_ZOOKEEPER, else the ensemble that YARN itself uses (``hadoop.zk.address``, before
    Hadoop 3 ``yarn.resourcemanager.zk-address``). Several clusters may share one. Raises BadConfig.
    """
    settings = read_settings(conf_dir, "core-site.xml", "yarn-site.xml")
    given = environ.get(ZOOKEEPER_VARIABLE, "").strip()
    if given.lower() == "none":
        return ""
    given = given or expanded(settings, "hadoop.zk.address")
    given = given or expanded(settings, "yarn.resourcemanager.zk-address")
    hosts, _, path = given.partition("/")
    servers = [server.strip() for server in hosts.split(",") if server.strip()]
    if not servers:
        return ""
    return "/".join([",".join(servers), path.strip("/") or "yarnam", _cluster_name(settings)])


def zookeeper_credentials(environ: Mapping[str, str]) -> str:
    """The content of the file that YARNAM_ZOOKEEPER_AUTH_FILE names; empty: none is named. Raises
    BadConfig, which does not tell the content."""
    name = environ.get(ZOOKEEPER_AUTH_VARIABLE, "")
    if not name:
        return ""
    try:
        return Path(name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(
            f"cannot read {name}, which {ZOOKEEPER_AUTH_VARIABLE} names: {type(error).__name__}",
            hint="It holds digest:user:password: docs/how-to/zookeeper.md",
        ) from error


def _cluster_name(settings: Mapping[str, str]) -> str:
    """Jobs of different clusters are not in each other's way."""
    for key in (
        "yarn.resourcemanager.cluster-id",
        "yarn.resourcemanager.hostname",
        "yarn.resourcemanager.address",
        "yarn.resourcemanager.webapp.address",
    ):
        name = re.sub(r"[^A-Za-z0-9._-]", "_", expanded(settings, key).partition(":")[0])
        if name.strip("._"):
            return name
    return "default"


def _read(path: Path, depth: int) -> Iterable[Property]:
    if depth > _MAX_DEPTH:
        raise BadConfig(f"{path}: XIncludes nested more than {_MAX_DEPTH} deep")
    try:
        root = ET.parse(path).getroot()  # noqa: S314 - the site's own files
    except (ET.ParseError, OSError) as error:
        raise BadConfig(
            f"cannot read {path}: {error}", hint="It must be a Hadoop configuration file."
        ) from error
    for element in root:
        if element.tag == "property":
            name = (element.findtext("name") or "").strip()
            if name:
                yield Property(
                    name=name,
                    value=(element.findtext("value") or "").strip(),
                    is_final=(element.findtext("final") or "").strip() == "true",
                )
        elif element.tag == _XINCLUDE:
            included = path.parent / unquote(urlparse(element.get("href", "")).path)
            if included.is_file():
                yield from _read(included, depth + 1)
            elif not list(element):
                raise BadConfig(f"{path} includes {included}, which does not exist")
