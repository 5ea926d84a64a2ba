"""Whether a ticket will do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hdfs_utils import TimeLimits
from hdfs_utils.backends.webhdfs import WebHdfsFileSystem
from tests.unit.adapters.test_job_tokens import Web
from tests.unit.client.world import World
from yarnam.adapters.job_tokens import TokenSource
from yarnam.client.doctor.cluster_checks import _delegation_tokens
from yarnam.client.doctor.finding import Health
from yarnam.client.doctor.kerberos_check import check_ticket, site_realms

ALICE = "alice@SITE.TEST"
SITE = frozenset({"SITE.TEST"})


def test_a_good_one() -> None:
    found = check_ticket(ALICE, 35_880, (), SITE)
    assert (found.health, found.message) == (Health.OK, "alice@SITE.TEST, for 9 h 58 min")
    found = check_ticket(ALICE, 60, (ALICE,), SITE)
    assert found.health is Health.OK
    assert found.message.endswith("0 h 1 min; a keytab gets the next one")
    assert check_ticket(ALICE, 36_000, (), ()).health is Health.OK


@pytest.mark.parametrize(
    ("principal", "left_s", "keys", "says", "advises"),
    [
        (ALICE, 600, (), "ends in 10 min", "kinit again"),
        ("alice@OTHER.TEST", 36_000, (), "the site of SITE.TEST", "kinit as a principal"),
        (ALICE, 36_000, ("bob@SITE.TEST", ALICE), "of bob@SITE.TEST", "programs become bob"),
    ],
)
def test_what_will_not_do(
    principal: str, left_s: float, keys: tuple[str, ...], says: str, advises: str
) -> None:
    found = check_ticket(principal, left_s, keys, SITE)
    assert found.health is Health.WARN
    assert says in found.message
    assert advises in found.hint


def test_the_realms_of_a_site_are_its_services() -> None:
    settings = {
        "dfs.namenode.kerberos.principal": "hdfs/_HOST@SITE.TEST",
        "yarn.resourcemanager.principal": "yarn/rm.site@SITE.TEST",
    }
    assert site_realms(settings) == SITE
    assert site_realms({"yarn.resourcemanager.principal": "yarn/rm"}) == frozenset()


def test_a_site_that_gives_no_delegation_tokens_is_found(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert "not needed" in _delegation_tokens(world.site).message
    web = Web()
    files = WebHdfsFileSystem(web, "hdfs://10.0.0.1:8020", TimeLimits())

    def source() -> TokenSource:
        token = world.rm.delegation_token
        return TokenSource(lambda _: files, token, (files.uri,), "rm1:8032", "yarn")

    site = replace(world.site, open_token_source=source)
    assert _delegation_tokens(site).health is Health.OK
    web.refuses = True
    found = _delegation_tokens(site)
    assert (found.part, found.health) == ("Delegation tokens", Health.FAIL)
    assert "run kinit" in found.message
