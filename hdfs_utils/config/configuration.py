"""Hadoop's configuration files, read as Hadoop's own ``Configuration`` class reads them.

The one reader of ``*-site.xml`` here. What it does is what ``Configuration.loadResource`` and
``Configuration.substituteVars`` do (hadoop-common 3.4): XIncludes with fallbacks, ``final`` within
a file and over all later ones, properties written as attributes, and ``${name}``, ``${env.NAME}``,
``${env.NAME-default}`` (unset) and ``${env.NAME:-default}`` (unset or empty).
"""

from __future__ import annotations

import codecs
import contextlib
import os
import pwd
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse
from xml.etree import ElementTree as ET

from hdfs_utils.errors import BadConfig

FILES = ("core-site.xml", "hdfs-site.xml")
DEFAULT_FS = "fs.defaultFS"
# Configuration.findSubVariable: the first ${...} without "}", "$" or a blank in it.
_REFERENCE = re.compile(r"\$\{([^}$ ]+)\}")
_DECLARED_ENCODING = re.compile(
    rb"""(\s*<\?xml\s[^>]*?)\s+encoding\s*=\s*["']([A-Za-z][\w.-]*)["']"""
)
MULTI_BYTE = frozenset(
    {
        "gbk", "gb2312", "gb18030", "big5", "big5hkscs", "cp950", "shift_jis", "cp932", "euc_jp",
        "iso2022_jp", "euc_kr", "cp949", "johab",
    }
)  # fmt: skip
"""Encodings that expat does not know and Java does, by the names of Python's codecs."""
DEPRECATED = {
    "fs.default.name": DEFAULT_FS,
    "dfs.federation.nameservices": "dfs.nameservices",
    "dfs.federation.nameservice.id": "dfs.nameservice.id",
    "dfs.http.address": "dfs.namenode.http-address",
    "dfs.https.address": "dfs.namenode.https-address",
    "dfs.block.size": "dfs.blocksize",
    "dfs.umaskmode": "fs.permissions.umask-mode",
    "dfs.umask": "fs.permissions.umask-mode",
    "dfs.socket.timeout": "dfs.client.socket-timeout",
    "dfs.write.packet.size": "dfs.client-write-packet-size",
    "io.bytes.per.checksum": "dfs.bytes-per-checksum",
    "dfs.permissions": "dfs.permissions.enabled",
    "dfs.permissions.supergroup": "dfs.permissions.superusergroup",
    "topology.script.file.name": "net.topology.script.file.name",
    "yarn.resourcemanager.zk.state-store.address": "yarn.resourcemanager.zk-address",
}
"""Old names and the keys that they set (Configuration.handleDeprecation, HdfsConfiguration,
YarnConfiguration of Hadoop 3.4), of keys that are read here."""
_MAX_SUBSTITUTIONS = 20  # Configuration.MAX_SUBST
_MAX_INCLUDE_DEPTH = 8  # a file that includes itself overflows the stack of a daemon


@dataclass(frozen=True, slots=True)
class Property:
    """One property as a file has it, its references unresolved."""

    name: str
    value: str
    is_final: bool = False


def conf_dir_from_environment() -> str | None:
    """HADOOP_CONF_DIR, else HADOOP_HOME/etc/hadoop, else None."""
    if directory := os.environ.get("HADOOP_CONF_DIR"):
        return directory
    if home := os.environ.get("HADOOP_HOME"):
        return str(Path(home) / "etc" / "hadoop")
    return None


def load(
    conf_dir: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
    files: tuple[str, ...] = FILES,
    *,
    is_foreign: bool = False,
) -> dict[str, str]:
    """Read the configuration: each property's value with its references resolved.

    Args:
        conf_dir: the directory with the XML files; by default that of the environment.
        overrides: properties that win over the files, final ones too.
        files: read in this order, a later one wins; one that does not exist is skipped.
        is_foreign: see ``read_properties``; it refers to no variable of the environment either.

    Raises:
        BadConfig: ``conf_dir`` was given or is in the environment and is not a directory, a file
            is not well-formed, or it includes one that does not exist or that it may not.
    """
    directory = conf_dir or conf_dir_from_environment()
    properties: dict[str, str] = {}
    if directory:
        root = Path(directory)
        if not root.is_dir():
            message = "not a directory; set HADOOP_CONF_DIR to the one with core-site.xml"
            raise BadConfig(message, path=str(directory))
        final: set[str] = set()
        for path in (root / name for name in files):
            for found in read_properties(path, is_foreign=is_foreign) if path.is_file() else ():
                if found.name not in final:
                    properties[found.name] = found.value
                if found.is_final:
                    final.add(found.name)
    properties.update(overrides or {})
    try:
        return {
            name: _substitute(value, properties, is_foreign) for name, value in properties.items()
        }
    except _OwnVariable as error:
        message = f"refers to ${{{error}}}, a variable of whoever reads it: write its value"
        raise BadConfig(message, path=str(Path(directory or "", *files[:1]))) from None


def xml_bytes(data: bytes) -> bytes:
    """The document in an encoding that expat reads. Java reads every encoding that it declares;
    expat knows the UTFs and those of one byte for each character.

    Raises:
        ValueError: the bytes are not in the declared encoding.
        LookupError: Python does not know the encoding either.
    """
    declared = _DECLARED_ENCODING.match(data)
    if declared is None:
        return data
    name = declared[2].decode("ascii")
    if codecs.lookup(name).name not in MULTI_BYTE:
        return data
    text = data.decode(name)
    return _DECLARED_ENCODING.sub(rb"\1", text.encode("utf-8"), count=1)


def read_properties(path: Path, *, is_foreign: bool = False) -> tuple[Property, ...]:
    """The properties of one file in order, those that it includes among them.

    Args:
        path: the file.
        is_foreign: somebody else wrote it, so it includes no file outside of its own directory.

    Raises:
        BadConfig: it cannot be read, or includes a file that does not exist or that it may not.
    """
    return tuple(_read(path, 0, path.parent.resolve() if is_foreign else None))


def _read(path: Path, depth: int, bound: Path | None) -> Iterator[Property]:
    if depth > _MAX_INCLUDE_DEPTH:
        message = f"XIncludes are nested more than {_MAX_INCLUDE_DEPTH} deep"
        raise BadConfig(message, path=str(path))
    try:
        # The files are the site's own: whoever can write them commands the client anyway.
        root = ET.fromstring(xml_bytes(path.read_bytes()))  # noqa: S314
        yield from _properties(root, path, depth, bound)
    except (OSError, ValueError, LookupError, ET.ParseError) as error:
        raise BadConfig(f"cannot be read: {error}", path=str(path)) from error
    except RecursionError as error:
        raise BadConfig("its elements are nested too deep", path=str(path)) from error


def _properties(
    parent: ET.Element, path: Path, depth: int, bound: Path | None
) -> Iterator[Property]:
    for element in parent:
        tag = _local_name(element)
        if tag == "property":
            if found := _property(element):
                yield found
        elif tag == "include":
            yield from _included(element, path, depth, bound)
        else:
            yield from _properties(element, path, depth, bound)


def _included(
    element: ET.Element, path: Path, depth: int, bound: Path | None
) -> Iterator[Property]:
    href = element.get("href")
    if href is None:
        return
    target = path.parent / unquote(urlparse(href).path)
    if bound is not None and not target.resolve().is_relative_to(bound):
        raise BadConfig(f"includes {target}, which is not in {bound}", path=str(path))
    fallbacks = [child for child in element if _local_name(child) == "fallback"]
    if target.is_file():
        yield from _read(target, depth + 1, bound)
    elif not fallbacks:
        raise BadConfig(f"includes {target}, which does not exist", path=str(path))
    for fallback in () if target.is_file() else fallbacks:
        yield from _properties(fallback, path, depth, bound)


def _property(element: ET.Element) -> Property | None:
    fields = dict(element.attrib)
    # An empty element says nothing: <value></value> leaves an earlier value as it is.
    fields.update({_local_name(child): child.text for child in element if child.text})
    name, value = fields.get("name", "").strip(), fields.get("value")
    if not name or value is None:
        return None
    name = DEPRECATED.get(name, name)
    return Property(name, value.strip(), fields.get("final") == "true")


def _local_name(element: ET.Element) -> str:
    return str(element.tag).rpartition("}")[2]


class _OwnVariable(Exception):
    """A foreign file refers to the environment of whoever reads it."""


def _substitute(expression: str, properties: Mapping[str, str], is_foreign: bool = False) -> str:
    """``Configuration.substituteVars``: a value stays as it is from its first unknown reference
    on, and all of it where its references lead in a circle (Hadoop raises for some of those)."""
    value = expression
    for _ in range(_MAX_SUBSTITUTIONS):
        match = _REFERENCE.search(value)
        if match is None:
            return value
        if is_foreign and match[1].startswith("env."):
            raise _OwnVariable(match[1])
        found = _lookup(match[1], properties)
        if found is None:
            return value
        if match[0] in found:
            return expression
        value = value[: match.start()] + found + value[match.end() :]
    return expression


def _lookup(name: str, properties: Mapping[str, str]) -> str | None:
    found = _environment(name[4:]) if name.startswith("env.") and name != "env." else None
    if found is None and name in ("user.name", "user.home"):  # Java's, which win as well
        with contextlib.suppress(KeyError):
            user = pwd.getpwuid(os.getuid())
            return user.pw_name if name == "user.name" else user.pw_dir
    return properties.get(name) if found is None else found


def _environment(text: str) -> str | None:
    name, dash, default = text.partition("-")
    if not dash:
        return os.environ.get(name)
    if name.endswith(":"):
        return os.environ.get(name[:-1]) or default
    return os.environ.get(name, default)
