"""Where a site's settings let others in, as a function of the settings.

What follows from each, user by user, is in docs/explanation/security.md.
"""

from __future__ import annotations

from collections.abc import Mapping

_EXECUTOR = "yarn.nodemanager.container-executor.class"
_NONSECURE = "yarn.nodemanager.linux-container-executor.nonsecure-mode"
_ENCRYPTED = {
    "hadoop.rpc.protection": "RPC",
    "dfs.data.transfer.protection": "HDFS's data",
}


def open_doors(
    settings: Mapping[str, str], *, has_zookeeper: bool = False, has_zookeeper_secret: bool = False
) -> tuple[str, ...]:
    """One sentence for each; empty if none is known. ``settings``: Hadoop's, as far as they are
    known: what is not in them is not judged, but for the authentication, which is simple then."""
    is_simple = settings.get("hadoop.security.authentication", "simple").lower() == "simple"
    found = [
        _authentication(is_simple=is_simple, has_secret=has_zookeeper_secret),
        _containers(settings, is_simple=is_simple),
        *_clear_text(settings),
        *_access_lists(settings, is_simple=is_simple),
        _zookeeper(has_zookeeper, has_secret=has_zookeeper_secret),
    ]
    return tuple(each for each in found if each)


def _authentication(*, is_simple: bool, has_secret: bool) -> str:
    if not is_simple:
        return ""
    exposed = "ZooKeeper's credentials and secret variables" if has_secret else "secret variables"
    return (
        "authentication is simple: whoever reaches the NameNode can give any user's name and read "
        f"the files of running jobs, {exposed} included"
    )


def _containers(settings: Mapping[str, str], *, is_simple: bool) -> str:
    """Whether containers of different users run as the same user of the node."""
    user = _shared_user(settings, is_simple=is_simple)
    if not user:
        return ""
    return (
        f"containers of all users run as {user}: on a node they can read each other's files and "
        "end each other's processes"
    )


def _access_lists(settings: Mapping[str, str], *, is_simple: bool) -> list[str]:
    """What Kerberos does not keep from other users of the site, whatever its tickets prove."""
    if is_simple:
        return []
    found = []
    if settings.get("yarn.acl.enable", "true").lower() == "false":
        found.append(
            "yarn.acl.enable is false: everybody with a ticket can look into every application and "
            "kill it"
        )
    if settings.get("hadoop.http.authentication.type", "kerberos").lower() == "simple":
        found.append(
            "hadoop.http.authentication.type is simple: whoever reaches YARN's web pages gives any "
            "user's name there"
        )
    return found


def _shared_user(settings: Mapping[str, str], *, is_simple: bool) -> str:
    executor = settings.get(_EXECUTOR, "").rpartition(".")[2]
    if executor == "DefaultContainerExecutor":
        return f"the NodeManager's user ({executor})"
    is_limited = settings.get(f"{_NONSECURE}.limit-users", "true").lower() != "false"
    if executor == "LinuxContainerExecutor" and is_simple and is_limited:
        return f"{settings.get(f'{_NONSECURE}.local-user', 'nobody')} ({_NONSECURE}.limit-users)"
    return ""


def _clear_text(settings: Mapping[str, str]) -> list[str]:
    """Report HTTP although encryption is configured."""
    asked = [what for key, what in _ENCRYPTED.items() if "privacy" in settings.get(key, "").lower()]
    if settings.get("dfs.encrypt.data.transfer", "").lower() == "true":
        asked.append("HDFS's data")
    if not asked:
        return []
    return [
        f"{' and '.join(dict.fromkeys(asked))} must be encrypted, but {key} is HTTP_ONLY: {what}"
        for key, what in (
            ("dfs.http.policy", "WebHDFS goes in clear text"),
            ("yarn.http.policy", "jobs are submitted in clear text"),
        )
        if settings.get(key, "HTTP_ONLY").upper() == "HTTP_ONLY"
    ]


def _zookeeper(has_zookeeper: bool, *, has_secret: bool) -> str:
    if not has_zookeeper or has_secret:
        return ""
    return (
        "ZooKeeper is used without credentials: whoever reaches it can change what yarnam keeps "
        "there (yarnam docs zookeeper)"
    )
