"""What `yarnam doctor` warns of in a site's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.client.world import World
from yarnam.client.doctor.cluster_checks import Health, _security
from yarnam.client.doctor.open_doors import open_doors

SECURE = {"hadoop.security.authentication": "kerberos"}
EXECUTOR = "yarn.nodemanager.container-executor.class"
PACKAGE = "org.apache.hadoop.yarn.server.nodemanager"
NONSECURE = "yarn.nodemanager.linux-container-executor.nonsecure-mode"
DEFAULT = {EXECUTOR: f"{PACKAGE}.DefaultContainerExecutor"}
LINUX = {EXECUTOR: f"{PACKAGE}.LinuxContainerExecutor"}


def test_a_closed_site_has_none() -> None:
    assert open_doors(SECURE) == ()
    closed = {**SECURE, **LINUX, "dfs.http.policy": "HTTPS_ONLY"}
    assert open_doors(closed, has_zookeeper=True, has_zookeeper_secret=True) == ()


@pytest.mark.parametrize("settings", [{}, {"hadoop.security.authentication": "simple"}])
def test_simple_authentication_keeps_no_secret(settings: dict[str, str]) -> None:
    (door,) = open_doors(settings)
    assert "can give any user's name" in door
    assert "secret variables included" in door
    (door,) = open_doors(settings, has_zookeeper=True, has_zookeeper_secret=True)
    assert "ZooKeeper's credentials and secret variables included" in door


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({**SECURE, **DEFAULT}, "run as the NodeManager's user (DefaultContainerExecutor)"),
        (LINUX, f"run as nobody ({NONSECURE}.limit-users)"),
        ({**LINUX, f"{NONSECURE}.local-user": "yarnuser"}, "run as yarnuser"),
    ],
)
def test_containers_that_share_a_user_are_told(settings: dict[str, str], words: str) -> None:
    door = open_doors(settings)[-1]
    assert words in door
    assert "read each other's files" in door


@pytest.mark.parametrize(
    "settings", [{**SECURE, **LINUX}, {**LINUX, f"{NONSECURE}.limit-users": "false"}, {}]
)
def test_containers_of_their_own_users_are_none(settings: dict[str, str]) -> None:
    assert not [door for door in open_doors(settings) if "containers" in door]


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"hadoop.rpc.protection": "privacy"}, "RPC must"),
        ({"dfs.encrypt.data.transfer": "true"}, "HDFS's data must"),
        (
            {
                "hadoop.rpc.protection": "privacy,integrity",
                "dfs.data.transfer.protection": "privacy",
            },
            "RPC and HDFS's data must",
        ),
    ],
)
def test_http_beside_encryption_is_told(asked: dict[str, str], what: str) -> None:
    doors = open_doors({**SECURE, **asked, "yarn.http.policy": "HTTPS_ONLY"})
    assert doors == (
        f"{what} be encrypted, but dfs.http.policy is HTTP_ONLY: WebHDFS goes in clear text",
    )
    both = open_doors({**SECURE, **asked})
    assert len(both) == 2
    assert "jobs are submitted in clear text" in both[1]
    assert open_doors({**SECURE, "hadoop.rpc.protection": "authentication"}) == ()


def test_an_open_zookeeper_is_told() -> None:
    (door,) = open_doors(SECURE, has_zookeeper=True)
    assert "without credentials" in door
    assert open_doors(SECURE, has_zookeeper=False) == ()


def test_the_check_knows_the_resource_managers_settings_too(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.rm.configuration = dict(DEFAULT)
    found = _security(world.site)
    assert (found.part, found.health) == ("Security", Health.WARN)
    assert "DefaultContainerExecutor" in found.message
    assert "yarnam docs security" in found.hint


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"yarn.acl.enable": "false"}, "look into every application and kill it"),
        ({"hadoop.http.authentication.type": "simple"}, "gives any user's name"),
    ],
)
def test_kerberos_without_yarns_acls_or_without_authenticated_pages(
    settings: dict[str, str], words: str
) -> None:
    (door,) = open_doors({**SECURE, **settings})
    assert words in door
    assert not open_doors({**SECURE, **dict.fromkeys(settings, "true")})
    assert not [door for door in open_doors(settings) if words in door], "moot without Kerberos"
