"""Find the script that a command runs, and whether the job ships it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import PurePosixPath

from yarnam.spec.shipping.shipped_folder import LocalFolder
from yarnam.spec.values.fields import SHELL

LAUNCHING_MODULES = frozenset(
    {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"}
)
"""Modules that run the script which follows them."""

_SHELL_SYNTAX = frozenset(";|&<>$`(){}*?[]~\n#!")
_SCRIPTS = (".py", ".sh")


def missing_script(
    command: Sequence[str], folders: Mapping[str, LocalFolder], names: Iterable[str]
) -> str:
    """The problem with the command's script; empty if there is none, or if it cannot be known.
    ``folders`` are the local directories that are shipped, by their name in the container, where
    the entries of ``code`` lie in the working directory as well; ``names`` all that is shipped."""
    known = set(names)
    script = _script(_words(command), folders)
    if not script:
        return ""
    first, _, rest = script.partition("/")
    if rest and first in folders:
        return _missing(script, folders[first], rest, f"{first}/")
    code = folders.get("code")
    return "" if code is None or first in known else _missing(script, code, script, "")


def _words(command: Sequence[str]) -> Sequence[str]:
    """The words of a command; none of a shell line that does more than to start one program."""
    if tuple(command[:2]) != SHELL:
        return command
    line = command[2] if len(command) == 3 else ""
    if _SHELL_SYNTAX & set(line):
        return ()
    try:
        return shlex.split(line)
    except ValueError:
        return ()


def _script(words: Sequence[str], folders: Mapping[str, LocalFolder]) -> str:
    """The first word that names a script by a relative path; empty if there is none."""
    before = ""
    for word in words:
        if before == "-m" and word not in LAUNCHING_MODULES:
            return ""
        if word == "-c":
            return ""
        before = word
        if word.startswith(("-", "/", "$", ".")) or "=" in word or "{" in word or "://" in word:
            continue
        parts = PurePosixPath(word).parts
        if ".." not in parts and (
            word.endswith(_SCRIPTS) or (len(parts) > 1 and parts[0] in folders)
        ):
            return "/".join(parts)
    return ""


def _missing(script: str, folder: LocalFolder, path: str, prefix: str) -> str:
    if folder.ships(path):
        return ""
    if (folder.folder / path).exists():
        return f"{script} is not shipped: an ignore file of {folder.folder} names it"
    scripts = [name for name, _ in folder.content().files]
    near = get_close_matches(path, scripts, 1, 0.6) or [
        name for name in scripts if name.rpartition("/")[2] == path.rpartition("/")[2]
    ]
    hint = f"; did you mean {prefix}{near[0]}?" if near else ""
    return f"{script} is not in what is shipped from {folder.folder}{hint}"
