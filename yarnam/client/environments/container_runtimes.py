"""Settings of the site's NodeManagers, and whether they start containers from images."""

from __future__ import annotations

from collections.abc import Mapping

from yarnam.client.site import Site
from yarnam.core.model.job_spec import ContainerImage
from yarnam.core.model.snapshot import ClusterSnapshot
from yarnam.errors import BadSpec, Unavailable

EXECUTOR = "yarn.nodemanager.container-executor.class"
RUNTIMES = "yarn.nodemanager.runtime.linux.allowed-runtimes"
LINUX_EXECUTOR = "LinuxContainerExecutor"
MOST_ASKED = 3
"""NodeManagers that are asked until one answers: a site's are configured alike."""


def check_runtime(site: Site, image: ContainerImage, snapshot: ClusterSnapshot) -> None:
    """Raises BadSpec, with the reason from a NodeManager's configuration, if it does not have the
    image's runtime; Unavailable if none has answered."""
    address, settings = node_configuration(site, snapshot)
    if reason := why_not(image, settings):
        raise BadSpec(
            f"environment: {image.runtime.value}: not on this cluster: {reason} (the "
            f"NodeManager at {address})",
            hint="Ask the administrators for it; or leave the image out: requirements, lock and"
            " venv bring a Python to the nodes.",
        )


def node_configuration(site: Site, snapshot: ClusterSnapshot) -> tuple[str, Mapping[str, str]]:
    """The address of the first NodeManager that answers, and its settings. Raises Unavailable."""
    nodes = [node.http_address for node in snapshot.nodes if node.is_usable and node.http_address]
    scheme = site.rm.url.partition(":")[0]
    failures = []
    for address in nodes[:MOST_ASKED]:
        try:
            return address, site.node_settings(address, scheme)
        except Unavailable as error:
            failures.append(error.message)
    raise Unavailable(
        f"no NodeManager shows its configuration: {'; '.join(failures) or 'none has a web address'}"
    )


def why_not(image: ContainerImage, settings: Mapping[str, str]) -> str:
    """Empty means by this configuration the runtime is there."""
    executor = settings.get(EXECUTOR, "")
    if not executor.endswith(LINUX_EXECUTOR):
        return f"{EXECUTOR} is {executor or 'not set'}, and only {LINUX_EXECUTOR} has runtimes"
    allowed = settings.get(RUNTIMES) or "default"
    if image.runtime.value not in (name.strip() for name in allowed.split(",")):
        return f"{RUNTIMES} is {allowed}"
    return ""
