"""The Hadoop configuration of a client: ``core-site.xml`` and ``hdfs-site.xml`` as one dictionary.

The order, later wins: Hadoop's defaults needed here, the files, what the caller gives.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

from hdfs_utils.errors import BadConfig

FILES = ("core-site.xml", "hdfs-site.xml")
DEFAULT_FS = "fs.defaultFS"
_REFERENCE = re.compile(r"\$\{([^${}\s]+)\}")
# Hadoop's Configuration.MAX_SUBST: deeper than this is a loop.
_MAX_SUBSTITUTIONS = 20


def conf_dir_from_environment() -> str | None:
    """HADOOP_CONF_DIR, else HADOOP_HOME/etc/hadoop, else None."""
    if directory := os.environ.get("HADOOP_CONF_DIR"):
        return directory
    if home := os.environ.get("HADOOP_HOME"):
        return str(Path(home) / "etc" / "hadoop")
    return None


def load(conf_dir: str | None = None, overrides: Mapping[str, str] | None = None) -> dict[str, str]:
    """Read the configuration.

    Args:
        conf_dir: the directory with the XML files; by default that of the environment.
        overrides: properties that win over the files.

    Raises:
        BadConfig: ``conf_dir`` was given or is in the environment and is not a directory, or a
            file is not well-formed.
    """
    directory = conf_dir or conf_dir_from_environment()
    properties: dict[str, str] = {}
    if directory:
        root = Path(directory)
        if not root.is_dir():
            message = "not a directory; set HADOOP_CONF_DIR to the one with core-site.xml"
            raise BadConfig(message, path=directory)
        for name in FILES:
            properties.update(_read(root / name))
    properties.update(overrides or {})
    return {key: _substitute(value, properties) for key, value in properties.items()}


def _read(path: Path) -> dict[str, str]:
    try:
        # The files are the site's own: whoever can write them commands the client anyway.
        root = ET.parse(path).getroot()  # noqa: S314
    except FileNotFoundError:
        return {}
    except (OSError, ET.ParseError) as error:
        raise BadConfig(f"cannot be read: {error}", path=str(path)) from error
    found: dict[str, str] = {}
    final: set[str] = set()
    for node in root.iter("property"):
        key = (node.findtext("name") or "").strip()
        value = node.findtext("value")
        if not key or value is None or key in final:
            continue
        found[key] = value.strip()
        if (node.findtext("final") or "").strip().lower() == "true":
            final.add(key)
    return found


def _substitute(value: str, properties: Mapping[str, str]) -> str:
    """Replace ``${name}`` and ``${env.NAME}`` as Hadoop does; unknown names stay as they are."""
    for _ in range(_MAX_SUBSTITUTIONS):
        match = next((m for m in _REFERENCE.finditer(value) if _known(m[1], properties)), None)
        if match is None:
            return value
        value = value[: match.start()] + _lookup(match[1], properties) + value[match.end() :]
    return value


def _known(name: str, properties: Mapping[str, str]) -> bool:
    return name in properties or (name.startswith("env.") and name[4:] in os.environ)


def _lookup(name: str, properties: Mapping[str, str]) -> str:
    return properties[name] if name in properties else os.environ[name[4:]]
