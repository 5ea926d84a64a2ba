"""Checks who could have written a file on HDFS, before it is run or unpickled.

A file is the principal's own where nobody else can replace it: the file and each directory above it
belong to the principal, or to an owner who is trusted, and nobody else may write there. The owner
of the topmost directory is trusted, since that user can replace everything below. A client cannot
ask who else is a superuser: the site's configuration names them.

HDFS keeps the mask of an ACL in the group's bits, as POSIX does: without the group's write bit no
entry lets anybody write, and the ACL need not be read. What Ranger or another plug-in of the
NameNode allows besides does not show in modes and ACLs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from hdfs_utils import FileSystem, HdfsError
from hdfs_utils import uri as uris
from hdfs_utils.errors import NotFound
from hdfs_utils.filesystem import FileStatus
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.errors import NoPermission

OWNERS_VARIABLE = "YARNAM_TRUSTED_OWNERS"
OWNERS_KEY = "yarnam.trusted.owners"
"""Names with commas between them, in core-site.xml or the environment; ``*`` turns the check off.
Both count."""

_SUPERGROUP_KEY = "dfs.permissions.superusergroup"
_STICKY, _GROUP_WRITES, _OTHERS_WRITE = 0o1000, 0o020, 0o002


@dataclass(frozen=True, slots=True)
class Trust:
    """The owners whose files the principal may run. ``supergroup``: of HDFS's superusers."""

    owners: frozenset[str]
    supergroup: str = "supergroup"

    @property
    def is_of_all(self) -> bool:
        return "*" in self.owners


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why another user may have put a file there, and what to do about it."""

    reason: str
    remedy: str


def trust_of(user: str, settings: Mapping[str, str], environ: Mapping[str, str]) -> Trust:
    """``settings``: of core-site.xml and hdfs-site.xml."""
    named = f"{settings.get(OWNERS_KEY, '')},{environ.get(OWNERS_VARIABLE, '')}"
    owners = {user, *(name.strip() for name in named.split(","))} - {""}
    return Trust(frozenset(owners), settings.get(_SUPERGROUP_KEY, "supergroup"))


def doubt_about(part: FileStatus, acl: tuple[str, ...] | None, trust: Trust) -> Doubt | None:
    """The doubt about one file or directory. ``acl``: its entries; ``None`` if they are unknown."""
    if trust.is_of_all:
        return None
    if not part.owner:
        return Doubt(
            f"this back-end does not say whose {part.path} is",
            f"Use the native back-end or webhdfs, or set {OWNERS_VARIABLE}='*' to do without.",
        )
    if part.owner not in trust.owners:
        return Doubt(
            f"{part.path} belongs to {part.owner}",
            f"Move it away, or name {part.owner} in {OWNERS_VARIABLE} if you trust this owner with"
            " all that your jobs may do.",
        )
    writers = _writers(part, acl, trust)
    if not writers or (part.is_dir and part.permission & _STICKY):
        # In a sticky directory nobody can touch what belongs to others, and owners are compared.
        return None
    may = " and ".join(writers)
    return Doubt(f"{may} may write to {part.path}", f"hdfs dfs -chmod go-w {part.path}")


def _writers(part: FileStatus, acl: tuple[str, ...] | None, trust: Trust) -> list[str]:
    if part.permission & _OTHERS_WRITE:
        return ["everybody"]
    if not part.permission & _GROUP_WRITES:
        return []
    if acl is None:
        return [f"group {part.group} (or whom its ACL names, which cannot be read)"]
    found = []
    for entry in acl or ("group::rwx",):
        kind, name, actions = (*entry.split(":"), "", "")[:3]
        name = name or part.group
        is_trusted = name in trust.owners if kind == "user" else name == trust.supergroup
        if "w" in actions and not is_trusted:
            found.append(f"{kind} {name}")
    return found


class PathOwners:
    """Judges paths of one file system for one command. Safe to share between threads.

    Args:
        files: the file system.
        trust: whose files may be used.
        is_enforced: refuse what is in doubt; else only report it. With simple authentication
            anybody can be the owner, so a refusal would protect nobody.
        report: gets each doubt once where it is not enforced.
    """

    def __init__(
        self,
        files: FileSystem,
        trust: Trust,
        *,
        is_enforced: bool,
        report: Callable[[str], None],
    ) -> None:
        self._files = files
        self._trust = trust
        self._is_enforced = is_enforced
        self._report = report
        self._seen: dict[str, FileStatus] = {}
        self._reported: set[str] = set()

    def must_be_own(self, path: str, *, is_code: bool = True) -> None:
        """Raise NoPermission where others could have put there what lies at ``path``, if that is
        enforced; without ``is_code`` it may be data, so that it is reported in any case."""
        doubt = self.doubt(path)
        if doubt is None:
            return
        plain = self._files.own_path(path)
        if self._is_enforced and is_code:
            raise NoPermission(
                f"{plain} is not used, since it would run as you: {doubt.reason}",
                hint=f"{doubt.remedy}\nyarnam docs security says whom yarnam trusts.",
            )
        if doubt.reason not in self._reported:
            self._reported.add(doubt.reason)
            self._report(
                f"Warning: {doubt.reason}, so others can replace what runs as you. {doubt.remedy}"
            )

    def doubt(self, path: str) -> Doubt | None:
        """The topmost doubt about a path and the directories above it, as far as they exist. Raises
        YarnamError: HDFS does not answer."""
        with hdfs_errors(f"reading whose {path} is"):
            return next(self._doubts(self._parts(path)), None)

    def doubts(self, directory: str) -> list[Doubt]:
        """The doubt about a directory, else those about the files in it. Raises as ``doubt``."""
        if (above := self.doubt(directory)) is not None:
            return [above]
        with hdfs_errors(f"reading whose {directory} is"), suppress(NotFound):
            found = self._files.list(directory)
            return list(self._doubts([*self._parts("/"), *found]))
        return []

    def _doubts(self, parts: Sequence[FileStatus]) -> Iterator[Doubt]:
        """``parts``: the topmost directory first."""
        if self._trust.is_of_all or not parts:
            return
        trust = replace(self._trust, owners=self._trust.owners | ({parts[0].owner} - {""}))
        for part in parts:
            acl = self._acl(part) if part.permission & _GROUP_WRITES else ()
            if (doubt := doubt_about(part, acl, trust)) is not None:
                yield doubt

    def _parts(self, path: str) -> list[FileStatus]:
        plain = self._files.own_path(path)
        names = [plain]
        while names[-1] != "/":
            names.append(uris.parent(names[-1]))
        found: list[FileStatus] = []
        for name in reversed(names):
            try:
                status = self._seen.get(name) or self._files.stat(name)
            except NotFound:
                if found:
                    return found
            except HdfsError:
                # The directories above the mounts of a viewfs exist in its configuration alone.
                if found or not self._files.uri.startswith("viewfs:"):
                    raise
            else:
                if status.is_dir:
                    self._seen[name] = status
                found.append(status)
        return found

    def _acl(self, part: FileStatus) -> tuple[str, ...] | None:
        try:
            return self._files.acl(part.path)
        except HdfsError:
            return None
