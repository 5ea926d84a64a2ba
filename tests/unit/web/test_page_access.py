"""The job page applies YARN's ACLs where YARN does."""

from __future__ import annotations

import pytest

from yarnam.web.page_access import PageAccess, proxy_user

GROUPS = {"bob": {"ml", "staff"}, "zoe": {"sales"}}


def access(*acls: str, is_checked: bool = True) -> PageAccess:
    return PageAccess("ann", acls, lambda user: GROUPS.get(user, set()), is_checked)


@pytest.mark.parametrize(
    ("acl", "may"),
    [
        ("", {"ann"}),
        (" ", {"ann"}),
        ("bob", {"ann", "bob"}),
        ("bob,zoe ", {"ann", "bob", "zoe"}),
        (" ml", {"ann", "bob"}),
        ("eve sales,ml", {"ann", "bob", "zoe", "eve"}),
        ("*", {"ann", "bob", "zoe", "eve"}),
    ],
)
def test_the_owner_and_who_is_in_an_acl_may_read(acl: str, may: set[str]) -> None:
    for acls in ((acl, " "), (" ", acl)):
        judge = access(*acls)
        found = {u for u in ("ann", "bob", "zoe", "eve") if not judge.refusal(f"proxy-user={u}")}
        assert found == may
    assert not access(acl, is_checked=False).refusal("")


def test_who_is_not_named_is_nobody() -> None:
    judge = access("*")
    assert "did not say who you are" in judge.refusal("")
    assert "did not say who you are" in judge.refusal("other=ann; proxy-user=")
    assert "eve may not see" in access("").refusal("proxy-user=eve")


def test_the_proxys_cookie() -> None:
    assert proxy_user("a=b; proxy-user=ann%40X; c=d") == "ann@X"
    assert proxy_user('proxy-user="ann"') == "ann"
    assert proxy_user("my-proxy-user=ann") == ""
