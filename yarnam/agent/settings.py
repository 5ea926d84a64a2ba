"""What the agent is told by its environment: YARN's variables and the job's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from yarnam.errors import BadConfig
from yarnam.model.ids import AskId, parse_ask_id
from yarnam.wire.protocol import (
    ENV_AM_ADDRESS,
    ENV_ASK,
    ENV_LEASE_DIR,
    ENV_NODE_GPU_MODEL,
    ENV_NODE_GPUS,
    ENV_SERVICE,
)

DEFAULT_LEASE_DIR = "/tmp/yarnam-leases"  # noqa: S108 - one fixed place that all users share


@dataclass(frozen=True, slots=True)
class Settings:
    """One container. Addresses are host:port."""

    directory: Path
    """The container's working directory."""
    ask: AskId
    service: str
    """The Skein service that the container was started for; may be empty."""
    am_address: str
    container: str
    node: str
    """NM_HOST."""
    node_key: str
    """NM_HOST:NM_PORT; tells NodeManagers on one machine apart."""
    nm_http_address: str
    log_directory: Path
    node_gpus: str
    node_gpu_model: str
    lease_directory: Path

    @property
    def application(self) -> str:
        """The application id that YARN put into the container id; empty when it is none."""
        parts = self.container.removeprefix("container_").split("_")
        if parts and parts[0].startswith("e"):
            parts = parts[1:]
        return f"application_{parts[0]}_{parts[1]}" if len(parts) == 4 else ""


def read_settings(env: Mapping[str, str], directory: Path) -> Settings:
    """Raises BadConfig when this is not a container of a job."""
    try:
        ask = parse_ask_id(env[ENV_ASK])
        am_address, container, node = env[ENV_AM_ADDRESS], env["CONTAINER_ID"], env["NM_HOST"]
    except KeyError as error:
        raise BadConfig(
            f"the environment variable {error.args[0]} is missing",
            hint="The agent runs in containers that yarnam's ApplicationMaster asked YARN for.",
        ) from error
    except ValueError as error:
        raise BadConfig(f"{ENV_ASK}={env[ENV_ASK]!r} is not the name of an ask") from error
    logs = env.get("LOG_DIRS", "").split(",")[0]
    return Settings(
        directory=directory,
        ask=ask,
        service=env.get(ENV_SERVICE) or env.get("SKEIN_CONTAINER_ID", "").rpartition("_")[0],
        am_address=am_address,
        container=container,
        node=node,
        node_key=f"{node}:{env.get('NM_PORT', '0')}",
        nm_http_address=f"{node}:{env.get('NM_HTTP_PORT', '0')}",
        log_directory=Path(logs) if logs else directory,
        node_gpus=env.get(ENV_NODE_GPUS, ""),
        node_gpu_model=env.get(ENV_NODE_GPU_MODEL, ""),
        lease_directory=Path(env.get(ENV_LEASE_DIR) or DEFAULT_LEASE_DIR),
    )


def environment_of_container() -> dict[str, str]:
    """The container's environment as text that gives the same bytes back (``keeper.to_bytes``)."""
    return {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for name, value in os.environb.items()
    }
