"""The file of delegation tokens that an agent replaces under its processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hdfs_utils.config.delegation_tokens import DelegationToken, load
from tests.unit.hdfs_utils.config.test_delegation_tokens import credentials
from yarnam.agent.mailbox.token_file import TokenFile

OLD = (b"old", b"p", b"HDFS_DELEGATION_TOKEN", b"nn:8020")
NEW = DelegationToken("HDFS_DELEGATION_TOKEN", "nn:8020", b"new", b"password")


def test_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(credentials(OLD))
    assert TokenFile({"HADOOP_TOKEN_FILE_LOCATION": str(path)}).take([NEW.for_url()])
    assert load(str(path)) == (NEW,)


def test_what_could_not_be_written_is_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "disk" / "tokens"
    tokens = TokenFile({"HADOOP_TOKEN_FILE_LOCATION": str(path)})
    assert not tokens.take([NEW.for_url()])
    assert not tokens.write()
    assert NEW.for_url() not in caplog.text
    path.parent.mkdir()
    path.write_bytes(credentials(OLD))
    assert tokens.write()
    assert load(str(path)) == (NEW,)


def test_what_is_no_token_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(credentials(OLD))
    assert not TokenFile({"HADOOP_TOKEN_FILE_LOCATION": str(path)}).take(["AA"])
    assert load(str(path))[0].identifier == b"old"


def test_without_a_file_there_is_nothing_to_do() -> None:
    assert TokenFile({}).take([NEW.for_url()])
