"""The settings that a secure cluster adds to a plain one's.

Data between clients and DataNodes is encrypted, pages and REST APIs want SPNEGO and HTTPS.
Two things differ from a site's: containers run as the cluster's user (the LinuxContainerExecutor
needs root), and logs are not aggregated (the NodeManager wants Hadoop's native library for it).
"""

from __future__ import annotations

from yarnam.cluster.cluster_plan import ClusterPlan
from yarnam.cluster.hadoop.kerberos_realm import REALM, SERVICES, service_principals
from yarnam.cluster.hadoop.properties import Properties
from yarnam.cluster.shape import Node


def secure_core(plan: ClusterPlan) -> Properties:
    prefix = "hadoop.http.authentication"
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "hadoop.rpc.protection": "authentication",
        "hadoop.http.filter.initializers": (
            "org.apache.hadoop.security.AuthenticationFilterInitializer"
        ),
        f"{prefix}.type": "kerberos",
        f"{prefix}.simple.anonymous.allowed": "false",
        f"{prefix}.kerberos.principal": f"HTTP/_HOST@{REALM}",
        f"{prefix}.kerberos.keytab": _keytab(plan),
        f"{prefix}.signature.secret.file": str(plan.paths.kerberos / "http-secret"),
    }


def secure_hdfs(plan: ClusterPlan) -> Properties:
    who, keytab, web = service_principals(plan), _keytab(plan), f"HTTP/_HOST@{REALM}"
    return {
        "dfs.block.access.token.enable": "true",
        "dfs.namenode.kerberos.principal": who["namenode"],
        "dfs.namenode.keytab.file": keytab,
        "dfs.namenode.kerberos.internal.spnego.principal": web,
        "dfs.datanode.kerberos.principal": who["datanode"],
        "dfs.datanode.keytab.file": keytab,
        "dfs.web.authentication.kerberos.principal": web,
        "dfs.web.authentication.kerberos.keytab": keytab,
        # With both, a DataNode needs no privileged port.
        "dfs.http.policy": "HTTPS_ONLY",
        "dfs.data.transfer.protection": "privacy",
        # Without it a tenth of the speed.
        "dfs.encrypt.data.transfer.cipher.suites": "AES/CTR/NoPadding",
        "dfs.namenode.https-address": plan.at_master("namenode_https"),
        "dfs.namenode.https-bind-host": plan.master,
    }


def secure_yarn(plan: ClusterPlan) -> Properties:
    who, keytab, web = service_principals(plan), _keytab(plan), f"HTTP/_HOST@{REALM}"
    return {
        "yarn.http.policy": "HTTPS_ONLY",
        "yarn.resourcemanager.principal": who["resourcemanager"],
        "yarn.resourcemanager.keytab": keytab,
        "yarn.resourcemanager.webapp.spnego-principal": web,
        "yarn.resourcemanager.webapp.spnego-keytab-file": keytab,
        # Jobs ask the ResourceManager by token.
        "yarn.resourcemanager.webapp.delegation-token-auth-filter.enabled": "true",
        "yarn.nodemanager.principal": who["nodemanager"],
        "yarn.nodemanager.keytab": keytab,
        "yarn.nodemanager.webapp.spnego-principal": web,
        "yarn.nodemanager.webapp.spnego-keytab-file": keytab,
        "yarn.admin.acl": f"{plan.user},yarn",
        # Without Hadoop's native library the NodeManager ends when the first application does:
        # "Secure IO is not possible without native code extensions".
        "yarn.log-aggregation-enable": "false",
    }


def secure_nodemanager(plan: ClusterPlan, node: Node) -> Properties:
    """Containers find the realm as they would by a site's ``/etc/krb5.conf``: Java reads no
    KRB5_CONFIG, and Hadoop's client wants a realm even where it has tokens only."""
    option = f"-Djava.security.krb5.conf={plan.paths.krb5_conf}"
    return {
        "yarn.nodemanager.webapp.https.address": f"{node.address}:{plan.ports['nm_web']}",
        "yarn.nodemanager.admin-env.KRB5_CONFIG": str(plan.paths.krb5_conf),
        "yarn.nodemanager.admin-env.JAVA_TOOL_OPTIONS": option,
    }


def zookeeper_jaas(plan: ClusterPlan) -> str:
    return f"""\
Server {{
  com.sun.security.auth.module.Krb5LoginModule required
  useKeyTab=true storeKey=true
  keyTab="{_keytab(plan)}"
  principal="{service_principals(plan)["zookeeper"]}";
}};
"""


ZOOKEEPER_SASL = (
    "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    # A principal's id in an ACL is its short name.
    "kerberos.removeHostFromPrincipal=true",
    "kerberos.removeRealmFromPrincipal=true",
)


def _keytab(plan: ClusterPlan) -> str:
    return str(plan.paths.keytab(SERVICES))
