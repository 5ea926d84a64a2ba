"""The Kerberos realm of a secure cluster: its principals, its KDC's files, its keytabs.

The KDC is Hadoop's own MiniKdc (Apache Kerby), a JVM of 100 MB. It makes all keys when it starts
and keeps them in memory, so it lives as long as the cluster does.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator, Mapping

from yarnam.cluster.cluster_plan import ClusterPlan

REALM = "YARNAM.TEST"
GUEST = "alice"
"""A second user, so that a job can be somebody else's than the cluster's."""
SERVICES = "service"
"""Name of the keytab of all daemons."""
ADMINISTRATOR = "hdfs"
"""Name of the keytab of HDFS's superuser, who sets the cluster up."""
_NODE = "node"
"""Host part of the principals of DataNodes and NodeManagers. NameNode and ResourceManager compare
the host part with where the connection comes from, which on loopback is 127.0.0.1 for everybody."""

TICKET_LIFE_MS = 24 * 3600 * 1000
RENEWABLE_LIFE_MS = 7 * TICKET_LIFE_MS


def users(plan: ClusterPlan) -> tuple[str, ...]:
    """Short names of those who have a keytab of their own."""
    return tuple(dict.fromkeys((plan.user, GUEST)))


def service_principals(plan: ClusterPlan) -> dict[str, str]:
    """The principals as the daemons' settings have them, with the realm, keyed by daemon."""
    master = plan.master
    return {
        "namenode": f"hdfs/{master}@{REALM}",
        "datanode": f"hdfs/{_NODE}@{REALM}",
        "resourcemanager": f"yarn/{master}@{REALM}",
        "nodemanager": f"yarn/{_NODE}@{REALM}",
        "zookeeper": f"zookeeper/{master}@{REALM}",
    }


def principals(plan: ClusterPlan) -> tuple[str, ...]:
    """All of the realm, without the realm."""
    hosts = dict.fromkeys(("127.0.0.1", *plan.addresses))
    services = [each.partition("@")[0] for each in service_principals(plan).values()]
    return (*services, *(f"HTTP/{host}" for host in hosts), *users(plan))


def krb5_conf(plan: ClusterPlan) -> str:
    """For MIT's library and for Java. By TCP: a datagram may be lost in silence."""
    return f"""\
[libdefaults]
  default_realm = {REALM}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
[realms]
  {REALM} = {{
    kdc = {plan.at_master("kdc")}
  }}
"""


def kdc_properties(plan: ClusterPlan) -> str:
    name, _, domain = REALM.partition(".")
    settings = {
        "org.name": name,
        "org.domain": domain,
        "kdc.bind.address": plan.master,
        "kdc.port": str(plan.ports["kdc"]),
        "transport": "TCP",
        "instance": "DefaultKrbServer",
        "max.ticket.lifetime": str(TICKET_LIFE_MS),
        "max.renewable.lifetime": str(RENEWABLE_LIFE_MS),
        "debug": "false",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def write_realm(plan: ClusterPlan) -> None:
    """Write the files that the KDC and its clients need before it starts."""
    folder = plan.paths.kerberos
    folder.mkdir(parents=True, mode=0o700)
    plan.paths.krb5_conf.write_text(krb5_conf(plan), encoding="utf-8")
    (folder / "kdc.properties").write_text(kdc_properties(plan), encoding="utf-8")
    (folder / "kdc").mkdir()
    (folder / "http-secret").write_text(secrets.token_hex(32), encoding="utf-8")
    for path in folder.iterdir():
        path.chmod(0o700 if path.is_dir() else 0o600)


def missing_principals(plan: ClusterPlan) -> set[str]:
    """Whose keys the KDC has not written yet."""
    try:
        data = plan.paths.keytab("kdc").read_bytes()
    except FileNotFoundError:
        return set(principals(plan))
    return set(principals(plan)) - {principal for principal, _ in keytab_records(data)}


def write_keytabs(plan: ClusterPlan) -> None:
    """The KDC's keytab, which has everybody's keys, as one for each user and one for the daemons:
    a client takes the first principal that it finds."""
    source = plan.paths.keytab("kdc")
    records = list(keytab_records(source.read_bytes()))
    groups: dict[str, list[bytes]] = {user: [] for user in users(plan)}
    groups |= {SERVICES: [], ADMINISTRATOR: []}
    administrator = service_principals(plan)["namenode"].partition("@")[0]
    for principal, record in records:
        groups[principal if principal in groups else SERVICES].append(record)
        if principal == administrator:
            groups[ADMINISTRATOR].append(record)
    for name, found in groups.items():
        path = plan.paths.keytab(name)
        path.touch(mode=0o600)
        path.write_bytes(b"\x05\x02" + b"".join(found))
    source.unlink()


def keytab_records(data: bytes) -> Iterator[tuple[str, bytes]]:
    """``(principal without its realm, record)`` of a keytab of format 5.2; one that is being
    written ends where it is cut off."""
    position = 2
    while position + 4 <= len(data):
        (size,) = struct.unpack_from(">i", data, position)
        end = position + 4 + abs(size)
        if end > len(data):
            return
        if size > 0:
            yield _principal(data[position + 4 : end]), data[position:end]
        position = end


def _principal(record: bytes) -> str:
    (count,) = struct.unpack_from(">H", record)
    position, parts = 2, []
    for _ in range(count + 1):  # the realm comes first
        (size,) = struct.unpack_from(">H", record, position)
        parts.append(record[position + 2 : position + 2 + size].decode(errors="replace"))
        position += 2 + size
    return "/".join(parts[1:])


def client_variables(plan: ClusterPlan, user: str) -> Mapping[str, str]:
    """The environment of a user's programs: tickets come from the keytab without a kinit. MIT's
    library, and so Python, reads the first three, Hadoop's Java tools the last two."""
    keytab = plan.paths.keytab(user)
    return {
        "KRB5_CONFIG": str(plan.paths.krb5_conf),
        "KRB5_CLIENT_KTNAME": f"FILE:{keytab}",
        "KRB5CCNAME": f"FILE:{plan.paths.kerberos / user}.tickets",
        "KRB5PRINCIPAL": f"{user}@{REALM}",
        "KRB5KEYTAB": str(keytab),
    }
