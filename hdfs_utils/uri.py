"""URIs and paths: ``hdfs://host:port/p``, ``hdfs:///p``, ``file:///p`` and plain ``/p``.

A path is absolute, uses ``/``, and is normalised: no empty, ``.`` or ``..`` parts, no ``/`` at the
end. Percent signs are ordinary characters, as in Hadoop's own ``Path``: nothing is decoded.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from hdfs_utils.errors import InvalidPath

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY = re.compile(r"[A-Za-z0-9_.-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:]+\](:[0-9]{1,5})?")
MAX_NAME_BYTES = 255
"""The longest name of a file: NAME_MAX on Linux, and HDFS's default
(dfs.namenode.fs-limits.max-component-length)."""
SCHEMES = ("hdfs", "viewfs", "webhdfs", "swebhdfs", "file")


@dataclass(frozen=True, slots=True)
class Uri:
    """A parsed URI.

    Attributes:
        scheme: one of ``SCHEMES``, or empty for a plain path (the default one).
        authority: ``host:port`` or the name of a nameservice; may be empty.
        path: absolute and normalised.
    """

    scheme: str
    authority: str
    path: str

    def join(self, *parts: str) -> Uri:
        """The URI with relative ``parts`` below it."""
        return Uri(self.scheme, self.authority, join(self.path, *parts))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}" if self.scheme else self.path


def parse(text: str) -> Uri:
    """Parse a URI or an absolute path.

    Raises:
        InvalidPath: an unknown scheme, a relative path, a bad host or port, or a path that climbs
            above the root.
    """
    if not text:
        raise InvalidPath("the path is empty")
    match = _SCHEME.match(text)
    if not match:
        return Uri("", "", normalise(text))
    scheme = match.group(1).lower()
    if scheme not in SCHEMES:
        known = ", ".join(f"{known}://" for known in SCHEMES)
        raise InvalidPath(
            f"unknown scheme {scheme!r}; known are {known} and plain paths", path=text
        )
    rest = text[match.end() :]
    authority = ""
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
    if authority:
        _check_authority(authority, scheme, text)
    return Uri(scheme, authority, normalise(rest or "/"))


def _check_authority(authority: str, scheme: str, text: str) -> None:
    if scheme == "file":
        raise InvalidPath(f"file:// takes no host; did you mean file:///{authority}/…?", path=text)
    if not _AUTHORITY.fullmatch(authority):
        raise InvalidPath(f"{authority!r} is not host, host:port or a nameservice", path=text)
    port = authority.rpartition(":")[2]
    if ":" in authority and port.isdigit() and not 0 < int(port) < 65536:
        raise InvalidPath(f"port {port} is not between 1 and 65535", path=text)


def normalise(path: str) -> str:
    """The path without empty, ``.`` and ``..`` parts.

    Raises:
        InvalidPath: relative, above the root, or with a NUL character.
    """
    if not path.startswith("/"):
        raise InvalidPath("not an absolute path; it must start with /", path=path)
    if "\0" in path:
        raise InvalidPath("a path cannot contain a NUL character", path=path)
    kept: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part != "..":
            kept.append(part)
        elif kept:
            kept.pop()
        else:
            raise InvalidPath("climbs above the root", path=path)
    return "/" + "/".join(kept)


def join(base: str, *parts: str) -> str:
    """``base`` with relative ``parts`` below it; never leaves ``base``.

    Raises:
        InvalidPath: a part is empty, absolute, or climbs out of ``base``.
    """
    root = normalise(base)
    for part in parts:
        if not part or part.startswith("/"):
            raise InvalidPath(f"cannot join {part!r}: not a relative path", path=base)
    joined = normalise("/".join((root, *parts)))
    if root != "/" and joined != root and not joined.startswith(root + "/"):
        raise InvalidPath(f"{'/'.join(parts)!r} climbs out of it", path=base)
    return joined


def parent(path: str) -> str:
    """The directory above a path; ``/`` is its own parent."""
    return normalise(path).rpartition("/")[0] or "/"


def name(path: str) -> str:
    """The last part of a path; empty for the root."""
    return normalise(path).rpartition("/")[2]


def hidden_sibling(path: str, suffix: str) -> str:
    """A hidden name in the same directory: ``.NAME`` and the suffix. A name that would become
    longer than a file system allows is cut, and has a digest in place of its end."""
    return join(parent(path), cut_name(f".{name(path)}", suffix))


def cut_name(start: str, suffix: str) -> str:
    """``start`` and the suffix, in at most ``MAX_NAME_BYTES``."""
    room = MAX_NAME_BYTES - len(suffix.encode())
    data = start.encode("utf-8", "surrogateescape")
    if len(data) <= room:
        return start + suffix
    digest = f"~{hashlib.sha256(data).hexdigest()[:12]}"
    return data[: room - len(digest)].decode("utf-8", "ignore") + digest + suffix
