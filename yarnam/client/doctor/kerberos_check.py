"""Whether a Kerberos ticket will do, as a function of what is known of it and of the site."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from yarnam.client.doctor.finding import Finding, ok, warn

ENDS_SOON_S = 3600.0
"""A submit takes seconds; who follows a job or refreshes its tokens needs a ticket for longer."""

_SERVICES = ("dfs.namenode.kerberos.principal", "yarn.resourcemanager.principal")
_HINT = "yarnam docs kerberos has more."


def site_realms(settings: Mapping[str, str]) -> frozenset[str]:
    """The realms of the NameNode and the ResourceManager, as far as they are named."""
    named = (settings.get(key, "").partition("@")[2] for key in _SERVICES)
    return frozenset(realm for realm in named if realm)


def check_ticket(
    principal: str, left_s: float, keys: Sequence[str], realms: Collection[str]
) -> Finding:
    """Check the user's ticket. ``left_s`` is the time until it ends. ``keys`` are the principals in
    the keytab by which programs get a new one; empty without a keytab. ``realms`` are the site's;
    empty if unknown."""
    realm = principal.rpartition("@")[2]
    if realms and realm not in realms:
        return warn(
            f"the ticket is of {principal}, the site of {' and '.join(sorted(realms))}",
            f"Unless the site trusts the realm {realm}, kinit as a principal of its own. {_HINT}",
        )
    if keys and keys[0] != principal:
        return warn(
            f"the ticket is of {principal}, but the keytab of KRB5_CLIENT_KTNAME of {keys[0]}",
            f"When the ticket ends, programs become {keys[0]}: kdestroy, or name another keytab.",
        )
    minutes = round(left_s / 60)
    if left_s < ENDS_SOON_S and not keys:
        return warn(
            f"the ticket of {principal} ends in {minutes} min",
            "kinit again, or set KRB5_CLIENT_KTNAME to your keytab.",
        )
    by = "; a keytab gets the next one" if keys else ""
    return ok(f"{principal}, for {minutes // 60} h {minutes % 60} min{by}")
