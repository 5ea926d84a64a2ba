"""Files that nobody else should be able to write, on HDFS, or to read, on this machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hdfs_utils.backends.connect import is_kerberos
from yarnam.adapters.yarn.addresses import ZOOKEEPER_AUTH_VARIABLE, read_settings
from yarnam.client.doctor.finding import Finding, fail, ok, warn
from yarnam.client.site import Site
from yarnam.client.submit.upload import KEYTAB_VARIABLE
from yarnam.errors import ExitCode

if TYPE_CHECKING:
    from hdfs_utils.config.gateway import Gateway

_FILE_VARIABLES = (ZOOKEEPER_AUTH_VARIABLE, KEYTAB_VARIABLE, "KRB5_CLIENT_KTNAME")
MOST_NAMED = 5
_OTHERS = 0o077


def check_stored_code(site: Site) -> Finding:
    """List the code on HDFS that a submit would refuse, or with simple authentication only report.
    Raises YarnamError."""
    paths = site.paths
    owners = site.path_owners()
    folders = (paths.jobs, paths.runtimes, paths.environments, paths.skein_staging("x"))
    doubts = dict.fromkeys(
        doubt
        for folder in folders
        for doubt in (
            owners.doubts(folder)
            if folder in (paths.runtimes, paths.environments)
            else filter(None, [owners.doubt(folder)])
        )
    )
    if not doubts:
        return ok(f"nobody else can write below {paths.root}, as far as modes and ACLs show")
    named = list(doubts)[:MOST_NAMED]
    message = "; ".join(doubt.reason for doubt in named)
    if len(doubts) > len(named):
        message += f"; and {len(doubts) - len(named)} more"
    hint = "\n".join(dict.fromkeys(doubt.remedy for doubt in named))
    settings = read_settings(site.conf_dir, "core-site.xml")
    if is_kerberos(settings):
        return fail(f"submit would refuse it: {message}", hint, ExitCode.NO_PERMISSION)
    return warn(f"others can replace what runs as you: {message}", hint)


def check_secret_files(gateway: Gateway | None, environ: Mapping[str, str]) -> Finding:
    """Whether other users of this machine can read the files with passwords, tokens and keys."""
    named = [environ.get(name, "") for name in _FILE_VARIABLES]
    if gateway is not None:
        named.append(gateway.token_file or gateway.netrc_file)
    files = [Path(name.removeprefix("FILE:")) for name in named if name]
    reasons = [reason for file in dict.fromkeys(files) if (reason := _why_open(file))]
    if reasons:
        return warn("; ".join(reasons), "chmod 600, and make it your own file.")
    return ok(f"{len(files)} named, readable by you alone" if files else "none are named")


def _why_open(file: Path) -> str:
    try:
        found = file.stat()
    except OSError:
        return ""  # The part that reads it says so.
    if found.st_uid not in (0, os.getuid()):
        return f"{file} belongs to another user (uid {found.st_uid})"
    mode = stat.S_IMODE(found.st_mode)
    return f"others can read or write {file} (mode {mode:o})" if mode & _OTHERS else ""
