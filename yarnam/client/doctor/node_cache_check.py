"""Whether the nodes keep an environment from one job to the next."""

from __future__ import annotations

from collections.abc import Sequence

from yarnam.client.doctor.finding import Finding, ok, warn
from yarnam.client.environments.container_runtimes import node_configuration
from yarnam.client.environments.environment_layers import layers_named
from yarnam.client.environments.stored_archives import StoredArchive, list_archives
from yarnam.client.site import Site
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.errors import NoPermission, Unavailable

SETTING = "yarn.nodemanager.localizer.cache.target-size-mb"
DEFAULT_MIB = 10240
"""yarn-default.xml."""

UNPACKED = 1.8
"""Times the size of the archive: PyTorch's usual wheels are 3.1 GB packed and 5.5 GB unpacked."""


def check_node_cache(site: Site, snapshot: ClusterSnapshot) -> Finding:
    """Compare the largest environment that this user has on HDFS with what NodeManagers keep.
    Raises Unavailable: HDFS does not answer."""
    try:
        address, settings = node_configuration(site, snapshot)
    except (Unavailable, NoPermission):
        return ok("not known: no NodeManager shows its configuration")
    try:
        limit_mib = int(settings.get(SETTING, DEFAULT_MIB))
    except ValueError:
        return warn(f"{SETTING} is not a number", f"Correct it on {address}.")
    needed_mib = largest_environment_bytes(list_archives(site)) * UNPACKED / 2**20
    if needed_mib > limit_mib:
        return warn(
            f"your largest environment takes some {needed_mib:.0f} MiB unpacked, and a node keeps"
            f" {limit_mib} MiB: YARN copies and unpacks it for each job anew",
            f"Ask an administrator to raise {SETTING}, or make the environment smaller.",
        )
    return ok(f"{limit_mib} MiB; your largest environment takes some {needed_mib:.0f}")


def largest_environment_bytes(archives: Sequence[StoredArchive]) -> int:
    """The size on HDFS of the largest environment with its layers; 0 if there is none."""
    sizes = {_without_digest(each.name): each.size_bytes for each in archives}
    return max(
        (
            size + sum(sizes.get(layer, 0) for layer in layers_named(name))
            for name, size in sizes.items()
        ),
        default=0,
    )


def _without_digest(name: str) -> str:
    stem, _, rest = name.rpartition("-")
    _, _, suffix = rest.partition(".")
    return f"{stem}.{suffix}" if stem else name
