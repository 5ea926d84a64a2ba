"""The rules by which Hadoop's daemons know a principal."""

from __future__ import annotations

import pytest

from hdfs_utils.config.auth_to_local import MECHANISM, RULES, Rule, rules_of, short_name
from hdfs_utils.errors import BadConfig

OWN = {"dfs.namenode.kerberos.principal": "nn/_HOST@SITE"}


@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        ("", "ada@SITE", "ada"),
        ("DEFAULT", "nn/host@SITE", "nn"),
        # Those of Hadoop's documentation of secure mode.
        (r"RULE:[2:$1/$2@$0]([ndj]n/.*@SITE)s/.*/hdfs/ DEFAULT", "nn/host@SITE", "hdfs"),
        (r"RULE:[2:$1/$2@$0]([rn]m/.*@SITE)s/.*/yarn/ DEFAULT", "rm/host@SITE", "yarn"),
        # Those of Hadoop's TestKerberosName.
        (r"RULE:[1:$1@$0](.*@YAHOO\.COM)s/@.*//", "omalley@YAHOO.COM", "omalley"),
        (r"RULE:[2:$1](johndoe)s/^.*$/guest/", "johndoe/machine@FOO.COM", "guest"),
        (r"RULE:[2:$1;$2](^.*;admin$)s/;admin$//", "root/admin@BAR.COM", "root"),
        (r"RULE:[1:$1]/L", "Joe@SITE", "joe"),
        (r"RULE:[1:$1@$0](.*@FOO)s/@.*///L DEFAULT", "Joe@FOO", "joe"),
        ("RULE:[1:$1]s/a/b/", "banana@SITE", "bbnana"),
        ("RULE:[1:$1]s/a/b/g", "banana@SITE", "bbnbnb"),
        (r"RULE:[1:$1@$0](.*)s/(.*)@(.*)/$2-$1/", "ada@FOO", "FOO-ada"),
        ("RULE:[2:x]\n  DEFAULT", "ada@SITE", "ada"),
    ],
)
def test_the_first_rule_that_fits(rules: str, principal: str, name: str) -> None:
    assert short_name(principal, {**OWN, RULES: rules}) == name


def test_a_name_without_a_realm_is_one_already() -> None:
    assert short_name("yarn", {RULES: "RULE:[1:x]"}) == "yarn"


def test_default_is_for_the_sites_own_realm() -> None:
    with pytest.raises(BadConfig, match="does not know"):
        short_name("ada@ELSEWHERE", OWN)
    assert short_name("ada@ELSEWHERE", {}) == "ada"  # the site's is not known


def test_what_is_no_users_name_is_refused_but_by_mit() -> None:
    keep = {**OWN, RULES: "RULE:[1:$1@$0]"}
    with pytest.raises(BadConfig, match="not a user's name"):
        short_name("ada@SITE", keep)
    assert short_name("ada@SITE", {**keep, MECHANISM: "MIT"}) == "ada@SITE"
    assert short_name("ada@ELSEWHERE", {**OWN, MECHANISM: "mit"}) == "ada@ELSEWHERE"


@pytest.mark.parametrize("rules", ["RULE", "DEFAULT,DEFAULT", "RULE:[1:$1](", "RULE:[x:$1]"])
def test_what_is_no_rule(rules: str) -> None:
    with pytest.raises(BadConfig, match="no rule at"):
        rules_of(rules)


@pytest.mark.parametrize("rules", ["RULE:[1:$1]([)", "RULE:[1:$3]", "RULE:[1:$1]s/(/x/"])
def test_what_cannot_be_applied(rules: str) -> None:
    with pytest.raises(BadConfig, match="a rule that is none"):
        short_name("ada@SITE", {RULES: rules})


def test_two_rules() -> None:
    assert rules_of("RULE:[1:$1](a)s/b/c/g/L DEFAULT/L") == (
        Rule(1, "$1", "a", "b", "c", is_global=True, is_lower=True),
        Rule(is_lower=True),
    )
