"""What others could have put on HDFS is not taken for the user's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hdfs_utils.errors import NotSupported
from hdfs_utils.filesystem import FileStatus
from tests.fakes.files import MemoryFiles
from yarnam.adapters.hdfs.path_owners import PathOwners, Trust, doubt_about, trust_of
from yarnam.errors import NoPermission

RUNTIME = "/user/me/.yarnam/runtime/yarnam-runtime-1.tar.gz"
DIRECTORY = FileStatus("/user/me", 0, True, 0, "me", "us", 0o700, 0, 0)


@pytest.fixture
def files() -> MemoryFiles:
    """The site's own directories are an administrator's."""
    found = MemoryFiles()
    found.write_bytes(RUNTIME, b"code")
    for path in ("/", "/user"):
        found.chown(path, "hdfs", "admins")
    return found


def owners(files: MemoryFiles, *named: str, is_enforced: bool = True) -> PathOwners:
    trust = Trust(frozenset({"me", *named}))
    return PathOwners(files, trust, is_enforced=is_enforced, report=lambda _: None)


def test_what_only_the_user_can_write_is_taken(files: MemoryFiles) -> None:
    owners(files).must_be_own(RUNTIME)
    owners(files).must_be_own(f"{files.uri}{RUNTIME}")


@pytest.mark.parametrize("path", ["/user", "/user/me", "/user/me/.yarnam/runtime", RUNTIME])
@pytest.mark.parametrize("permission", [0o720, 0o775, 0o777, 0o702])
def test_whoever_may_write_somewhere_above_could_have_put_it_there(
    files: MemoryFiles, path: str, permission: int
) -> None:
    files.chmod(path, permission)
    with pytest.raises(NoPermission, match="would run as you") as refused:
        owners(files).must_be_own(RUNTIME)
    assert f"may write to {path}" in refused.value.message
    assert f"hdfs dfs -chmod go-w {path}" in refused.value.hint


@pytest.mark.parametrize("path", ["/user", "/user/me", "/user/me/.yarnam", RUNTIME])
def test_so_could_a_foreign_owner_unless_trusted(files: MemoryFiles, path: str) -> None:
    files.chown(path, "eve")
    with pytest.raises(NoPermission, match=f"{path} belongs to eve"):
        owners(files).must_be_own(RUNTIME)
    owners(files, "eve").must_be_own(RUNTIME)


def test_a_sticky_directory_protects_what_has_the_right_owner(files: MemoryFiles) -> None:
    files.chmod("/user", 0o1777)
    owners(files).must_be_own(RUNTIME)
    files.chown("/user/me", "eve")
    with pytest.raises(NoPermission, match="belongs to eve"):
        owners(files).must_be_own(RUNTIME)


@pytest.mark.parametrize(
    ("acl", "reason"),
    [
        (("user:bob:rwx", "group::r-x"), "user bob"),
        (("user:me:rwx", "group:dev:-w-", "group::r-x"), "group dev"),
        (("user:me:rwx", "group::rwx"), "group us"),
        (("user:me:rwx", "user:bob:r-x", "group::r-x"), ""),
        (("group:supergroup:rwx", "group::r-x"), ""),
        ((), "group us"),
    ],
)
def test_an_acl_says_who_may_write_behind_the_group_s_bit(
    files: MemoryFiles, acl: tuple[str, ...], reason: str
) -> None:
    files.set_acl("/user/me", *acl)
    owners(files).must_be_own(RUNTIME)  # the mask keeps them all out
    files.chmod("/user/me", 0o770)
    found = owners(files).doubt(RUNTIME)
    assert (found.reason if found else "") == (reason and f"{reason} may write to /user/me")


def test_the_group_of_superusers_may_write_anywhere_anyway(files: MemoryFiles) -> None:
    files.chown("/user", "hdfs", "supergroup")
    files.chmod("/user", 0o775)
    owners(files).must_be_own(RUNTIME)

    def fail(operation: str, path: str) -> None:
        if operation == "read ACL":
            raise NotSupported("no ACLs here", path=path)

    files.fail = fail
    with pytest.raises(NoPermission, match="its ACL names, which cannot be read"):
        owners(files).must_be_own(RUNTIME)


def test_with_simple_authentication_it_is_said_once(files: MemoryFiles) -> None:
    files.chmod("/user/me", 0o777)
    said: list[str] = []
    found = PathOwners(files, Trust(frozenset({"me"})), is_enforced=False, report=said.append)
    found.must_be_own(RUNTIME)
    found.must_be_own(RUNTIME)
    [warning] = said
    assert "everybody may write to /user/me" in warning
    assert "hdfs dfs -chmod go-w /user/me" in warning


def test_what_may_be_data_is_said_and_not_refused(files: MemoryFiles) -> None:
    files.chmod("/user/me", 0o777)
    said: list[str] = []
    found = PathOwners(files, Trust(frozenset({"me"})), is_enforced=True, report=said.append)
    found.must_be_own(RUNTIME, is_code=False)
    assert len(said) == 1


def test_every_file_of_a_directory_is_judged(files: MemoryFiles) -> None:
    directory = "/user/me/.yarnam/runtime"
    files.write_bytes(f"{directory}/b", b"")
    files.write_bytes(f"{directory}/c", b"")
    files.chown(f"{directory}/b", "eve")
    files.chmod(f"{directory}/c", 0o666)
    reasons = [doubt.reason for doubt in owners(files).doubts(directory)]
    assert reasons == [
        f"{directory}/b belongs to eve",
        f"everybody may write to {directory}/c",
    ]
    assert owners(files).doubts("/user/me/missing") == []
    assert owners(files, "*").doubts(directory) == []


def test_a_back_end_that_knows_no_owner_leaves_a_doubt() -> None:
    found = doubt_about(replace(DIRECTORY, owner=""), (), Trust(frozenset({"me"})))
    assert found is not None
    assert "does not say whose /user/me is" in found.reason


def test_the_site_and_the_user_name_owners() -> None:
    settings = {"yarnam.trusted.owners": "mlops, hdfs", "dfs.permissions.superusergroup": "admins"}
    found = trust_of("me", settings, {"YARNAM_TRUSTED_OWNERS": "ann,,"})
    assert found == Trust(frozenset({"me", "mlops", "hdfs", "ann"}), "admins")
    assert trust_of("me", {}, {}) == Trust(frozenset({"me"}), "supergroup")
