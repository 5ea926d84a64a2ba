"""The delegation tokens of the ApplicationMaster's container, and those that replace them.

YARN starts every attempt with the tokens of the submission. What replaced them is kept beside, in
the application's own directories on the node, which outlive an attempt and end with the
application: the next attempt there continues with it."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hdfs_utils.config import delegation_tokens
from hdfs_utils.errors import HdfsError
from hdfs_utils.protocols.token_lifetime import usable_until_s
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.core.failures.token_renewal import TokenLife, replace_at, retry_at
from yarnam.errors import Unavailable, YarnamError

COPY_FILE = "yarnam-tokens"
"""In one of LOCAL_DIRS, which belong to the user."""

OBTAIN_LIMIT_S = 60.0
"""For a ticket and two tokens. If the KDC, a NameNode and the ResourceManager fail over
together, that takes longer, and the next try gets them."""

_REPLACED = (delegation_tokens.HDFS_KIND, delegation_tokens.RM_KIND)

MODULE = "yarnam.cli.containers.token_process"

_log = logging.getLogger("yarnam.am")


@dataclass(frozen=True, slots=True)
class NewTokens:
    """As Hadoop's REST interfaces write them, and when the first of them ends."""

    tokens: tuple[str, ...] = field(repr=False)
    until_s: float


def obtain_by_keytab(keytab: str, uris: Sequence[str], environ: Mapping[str, str]) -> NewTokens:
    """New tokens, for the file systems of ``uris``, the default one first, and for the
    ResourceManager; ``environ``: this container's. Raises Unavailable with what Kerberos or Hadoop
    said."""
    # What lies in the cache would outlive the process; the container's own tokens would be taken
    # in place of a ticket, and no token is given for a token.
    surroundings = {
        **environ, "KRB5_CLIENT_KTNAME": f"FILE:{Path(keytab).absolute()}", "KRB5CCNAME": "MEMORY:"
    }  # fmt: skip
    surroundings.pop(delegation_tokens.TOKEN_FILE_VARIABLE, None)
    # -m puts the working directory before everything else: not the container's.
    command = [sys.executable, "-m", MODULE, *uris]
    try:
        done = subprocess.run(
            command, env=surroundings, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=OBTAIN_LIMIT_S, check=False, cwd="/",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"no new delegation tokens: {type(error).__name__}") from None
    if done.returncode:
        raise Unavailable(f"no new delegation tokens: {done.stderr.strip()[-1000:]}")
    until, *tokens = done.stdout.split()
    return NewTokens(tuple(tokens), float(until))


def keep_replacing(
    current: TokenLife,
    obtain: Callable[[], NewTokens],
    take: Callable[[Sequence[str]], None],
    wait: Callable[[float], bool],
    now_s: Callable[[], float] = time.time,
) -> None:
    """Replace the job's tokens before they end, again and again. ``take`` uses them from then on.
    ``wait`` this many seconds; ``True`` means no more is wanted. Raises nothing that ``obtain`` or
    ``take`` may raise (YarnamError)."""
    due_s = replace_at(current)
    while not wait(max(0.0, due_s - now_s())):
        try:
            found = obtain()
            take(found.tokens)
        except YarnamError as error:
            due_s = retry_at(current, now_s())
            _log.error(
                "%s; those in use end in %.0f s, the next try is in %.0f s",
                error.message, current.until_s - now_s(), due_s - now_s(),
            )  # fmt: skip
            continue
        current = TokenLife(now_s(), found.until_s)
        due_s = replace_at(current)


class ContainerTokens:
    """The token file of one attempt. File systems read it for each connection themselves."""

    def __init__(self, path: str, directories: Sequence[str]) -> None:
        """``path``: the container's token file. ``directories``: where a copy may lie."""
        self._path = path
        self._copies = [f"{directory}/{COPY_FILE}" for directory in directories if directory]

    @classmethod
    def of_this_container(cls, environ: Mapping[str, str]) -> ContainerTokens | None:
        """Return ``None`` if YARN has given the container no tokens."""
        path = environ.get(delegation_tokens.TOKEN_FILE_VARIABLE, "")
        return cls(path, environ.get("LOCAL_DIRS", "").split(",")) if path else None

    def life_from(self, now_s: float) -> TokenLife:
        """Of those with which YARN started this container, which it renews as long as it may.
        What does not say when it ends has ended. Raises nothing."""
        try:
            found = delegation_tokens.load(self._path)
        except HdfsError as error:
            _log.warning("the life of the delegation tokens is not known: %s", error)
            found = ()
        ends = [usable_until_s(token) for token in found if token.kind in _REPLACED]
        return TokenLife(now_s, min((end for end in ends if end is not None), default=now_s))

    def have_ended(self, now_s: float) -> bool:
        """Whether a client of HDFS would not take those in the file any more. Raises nothing."""
        return self.life_from(now_s).until_s <= now_s

    def replace(self, tokens: Sequence[str]) -> None:
        """Use these, as Hadoop's REST interfaces write them, from now on. Raises WireMismatch: one
        is none, BadConfig: the file cannot be written."""
        with hdfs_errors("replacing the delegation tokens"):
            found = [delegation_tokens.from_url(text) for text in tokens]
            delegation_tokens.replace_in_file(self._path, found)
        for copy in self._copies:
            try:
                delegation_tokens.write_file(copy, found)
            except HdfsError as error:
                _log.warning("no copy of the delegation tokens: %s", error)
                continue
            break
        _log.info("%d delegation tokens are replaced", len(found))

    def restore(self) -> tuple[str, ...]:
        """Use again what an earlier attempt on this node was given; that. Raises nothing."""
        newest, newest_at = "", 0.0
        for copy in self._copies:
            with suppress(OSError):
                at = Path(copy).stat().st_mtime
                if at > newest_at:
                    newest, newest_at = copy, at
        if not newest:
            return ()
        try:
            found = delegation_tokens.load(newest)
            delegation_tokens.replace_in_file(self._path, found)
        except HdfsError as error:
            _log.warning("the newer delegation tokens are lost: %s", error)
            return ()
        _log.info("%d delegation tokens of an earlier attempt are in use", len(found))
        return tuple(token.for_url() for token in found)
