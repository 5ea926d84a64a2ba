"""What only the AM gets: credentials for ZooKeeper, URLs of notifications."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.client.world import World, job_spec
from yarnam.core.model.job_spec import ChannelKind, ChannelSpec
from yarnam.errors import BadConfig
from yarnam.wire.codec import decode
from yarnam.wire.protocol import (
    LOCAL_NOTIFY_FILE,
    LOCAL_ZOOKEEPER_FILE,
    NOTIFY_FILE,
    SECRET_FILES,
    ZOOKEEPER_FILE,
)
from yarnam.wire.records import JobRecord, NotifyUrls

NOWHERE = "127.0.0.1:1/yarnam/x"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_without_one_nothing_is_taken_along(world: World) -> None:
    directory = world.client.submit(job_spec()).directory
    [spec] = world.launcher.submitted
    record = decode(world.files.read_bytes(f"{directory}/job.json"), JobRecord)
    assert record.zookeeper == ""
    assert LOCAL_ZOOKEEPER_FILE not in spec.master.files


def test_the_address_is_in_the_record_and_the_key_goes_to_the_am_alone(
    world: World, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text("digest:yarnam:s3cret\n")
    world.site.zookeeper = NOWHERE
    world.site.environ = {**world.site.environ, "YARNAM_ZOOKEEPER_AUTH_FILE": str(key)}
    directory = world.client.submit(job_spec()).directory
    [spec] = world.launcher.submitted
    text = world.files.read_bytes(f"{directory}/job.json")
    assert decode(text, JobRecord).zookeeper == NOWHERE
    assert b"s3cret" not in text
    assert world.files.read_bytes(f"{directory}/{ZOOKEEPER_FILE}") == b"digest:yarnam:s3cret"
    assert LOCAL_ZOOKEEPER_FILE in spec.master.files
    for service in spec.services.values():
        assert LOCAL_ZOOKEEPER_FILE not in service.files
    assert "s3cret" not in str(spec.to_dict())


def test_a_key_that_cannot_be_read_is_refused_before_anything_is_asked_of_yarn(
    world: World, tmp_path: Path
) -> None:
    world.site.zookeeper = NOWHERE
    name = str(tmp_path / "gone")
    world.site.environ = {**world.site.environ, "YARNAM_ZOOKEEPER_AUTH_FILE": name}
    with pytest.raises(BadConfig, match="gone"):
        world.client.submit(job_spec())
    assert world.launcher.submitted == []
    assert world.left_on_hdfs() == []


def test_the_urls_of_notifications_go_to_the_am_alone(world: World) -> None:
    channel = ChannelSpec(ChannelKind.SLACK, "https://hooks.example/T0K3N")
    directory = world.client.submit(job_spec(notify=(channel,))).directory
    [spec] = world.launcher.submitted
    record = world.files.read_bytes(f"{directory}/job.json")
    assert b"T0K3N" not in record
    assert decode(record, JobRecord).job.notify == (ChannelSpec(ChannelKind.SLACK),)
    urls = decode(world.files.read_bytes(f"{directory}/{NOTIFY_FILE}"), NotifyUrls).urls
    assert urls == (channel.url,)
    assert LOCAL_NOTIFY_FILE in spec.master.files
    for service in spec.services.values():
        assert LOCAL_NOTIFY_FILE not in service.files
    assert NOTIFY_FILE in SECRET_FILES
