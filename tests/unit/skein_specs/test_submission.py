"""What YARN and Skein's ApplicationMaster are given when Skein's driver is not asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import skein
from skein.proto import skein_pb2

from skein_specs import LocalizedFile, application_spec
from skein_specs.submission import JAR_FILE, SPEC_FILE, Stored, Submission, class_path
from tests.unit.skein_specs.test_application import ARCHIVE, RECORD
from yarnam.core.model.job_spec import AccessSpec
from yarnam.wire.records import JobRecord

DIRECTORY = "hdfs://nn:8020/user/u/.skein/application_1_1"
CONF = LocalizedFile("hdfs://ns1/j/h%c oé.zip", "archive", "APPLICATION", 5, 6)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.json"
    path.write_text("{}")
    return path


@pytest.fixture
def spec(secret: Path) -> skein.ApplicationSpec:
    return application_spec(
        RECORD,
        am_files={"hconf": CONF, "unseen": LocalizedFile("hdfs://nn:8020/u")},
        task_files={"rt": ARCHIVE, "secrets": LocalizedFile(str(secret))},
        security=skein.Security(cert_bytes=b"cert", key_bytes=b"key"),
        tags=["b", "a"],
    )


def stored_for(submission: Submission) -> dict[str, Stored]:
    names = {*submission.contents(), *submission.local_sources().values(), SPEC_FILE}
    found = {name: Stored(f"{DIRECTORY}/{name}", len(name), 77) for name in names}
    for path, name in submission.local_sources().items():
        found[path] = found[name]
    for uri in submission.unseen():
        found[uri] = Stored(uri, 11, 12)
    return {**found, JAR_FILE: Stored("hdfs://nn:8020/rt/skein.jar", 8_000_000, 99)}


def test_every_script_lies_once_in_the_directory(spec: skein.ApplicationSpec, secret: Path) -> None:
    submission = Submission(spec, attempts_interval_s=90.0)
    contents = submission.contents()
    assert contents.pop(".skein.crt") == b"cert"
    assert contents.pop(".skein.pem") == b"key"
    assert [name.endswith(".sh") for name in contents] == [True]
    assert b"yarnam.cli.containers.agent_process" in next(iter(contents.values()))
    assert list(submission.local_sources()) == [str(secret)]
    assert submission.unseen() == {"hdfs://nn:8020/u"}


def test_the_message_names_every_file_with_size_and_time(
    spec: skein.ApplicationSpec, secret: Path
) -> None:
    submission = Submission(spec, attempts_interval_s=90.0, lang="C.UTF-8")
    stored = stored_for(submission)
    message = skein_pb2.ApplicationSpec.FromString(submission.completed(stored))
    assert len(message.services) == len(RECORD.targets)
    for name, service in message.services.items():
        assert service.script == f"bash .skein.sh ><LOG_DIR>/{name}.log 2>&1"
        assert service.env["LANG"] == "C.UTF-8"
        assert set(service.files) == {"rt", "secrets", ".skein.sh", ".skein.crt", ".skein.pem"}
        for file in service.files.values():
            assert file.size > 0
            assert file.timestamp > 0
            # Skein's zero is PUBLIC: YARN would then want them to be readable by everybody.
            assert file.visibility != skein_pb2.File.PUBLIC
        secrets = service.files["secrets"].source
        assert (secrets.scheme, secrets.host, secrets.port) == ("hdfs", "nn", 8020)
        assert secrets.file.startswith("/user/u/.skein/application_1_1/")
        assert service.files["rt"].visibility == skein_pb2.File.PRIVATE
        assert service.files["rt"].type == skein_pb2.File.ARCHIVE
    security = message.master.security
    assert security.cert_file.source.file == "/user/u/.skein/application_1_1/.skein.crt"
    assert security.key_file.timestamp == 77
    assert security.WhichOneof("key") == "key_file"
    unseen = message.master.files["unseen"]
    assert (unseen.size, unseen.timestamp) == (11, 12)
    assert "yarnam.cli.containers.am_process" in message.master.script


def test_the_context_starts_skeins_am(spec: skein.ApplicationSpec) -> None:
    submission = Submission(spec, attempts_interval_s=90.0)
    stored = stored_for(submission)
    submission.completed(stored)
    context = submission.context(
        "application_1_1", DIRECTORY, stored, class_path="CP", user="somebody"
    )
    assert context["application-name"] == "train"
    assert context["queue"] == "root.dl"
    assert context["max-app-attempts"] == 3
    assert context["attempt-failures-validity-interval"] == 90_000
    assert context["application-tags"] == {"tag": ["a", "b", "yarnam"]}
    assert context["resource"] == {"memory": 1536, "vCores": 1}
    am = context["am-container-spec"]
    assert am["commands"]["command"] == (
        "{{JAVA_HOME}}/bin/java -Xmx128M -Xrs -Dskein.log.level=INFO "
        "-Dskein.log.directory=<LOG_DIR> com.anaconda.skein.ApplicationMaster "
        f"{DIRECTORY} ><LOG_DIR>/application.master.log 2>&1"
    )
    env = {entry["key"]: entry["value"] for entry in am["environment"]["entry"]}
    assert env["SKEIN_APPLICATION_ID"] == "application_1_1"
    assert env["HADOOP_USER_NAME"] == "somebody"
    assert env["CLASSPATH"] == "CP"
    assert "LANG" not in env
    files = {entry["key"]: entry["value"] for entry in am["local-resources"]["entry"]}
    assert set(files) == {
        "hconf", "unseen", ".skein.crt", ".skein.pem", ".skein.proto", ".skein.jar",
    }  # fmt: skip
    assert files[".skein.jar"]["visibility"] == "PRIVATE"
    assert files[".skein.pem"]["visibility"] == "APPLICATION"
    assert files["hconf"] == {
        "resource": "hdfs://ns1/j/h%25c%20o%C3%A9.zip",
        "type": "ARCHIVE",
        "visibility": "APPLICATION",
        "size": 5,
        "timestamp": 6,
    }


@pytest.mark.parametrize(
    ("authority", "host", "port"),
    [
        ("nn:8020", "nn", 8020),
        ("ns1", "ns1", 0),
        ("[::1]:8020", "[::1]", 8020),
        ("[::1]", "[::1]", 0),
    ],
)
def test_a_stored_file_is_named_by_host_and_port(
    spec: skein.ApplicationSpec, authority: str, host: str, port: int
) -> None:
    submission = Submission(spec, attempts_interval_s=90.0)
    stored = {
        name: replace(each, uri=each.uri.replace("hdfs://nn:8020", f"hdfs://{authority}"))
        for name, each in stored_for(submission).items()
    }
    message = skein_pb2.ApplicationSpec.FromString(submission.completed(stored))
    source = next(iter(message.services.values())).files["secrets"].source
    assert (source.host, source.port) == (host, port)


def test_class_path() -> None:
    assert class_path(" /a/*, /b ,") == "{{CLASSPATH}}<CPS>./*<CPS>/a/*<CPS>/b"
    assert class_path("").startswith("{{CLASSPATH}}<CPS>./*<CPS>{{HADOOP_CONF_DIR}}<CPS>")


def test_yarn_gets_the_jobs_own_acls_for_am_and_containers(
    spec: skein.ApplicationSpec, secret: Path
) -> None:
    def made(record: JobRecord) -> tuple[dict[str, Any], Any]:
        found = application_spec(
            record,
            am_files={},
            task_files={"rt": ARCHIVE},
            security=skein.Security(cert_bytes=b"cert", key_bytes=b"key"),
        )
        submission = Submission(found, attempts_interval_s=90.0)
        stored = stored_for(submission)
        message = skein_pb2.ApplicationSpec.FromString(submission.completed(stored))
        context = submission.context("a", DIRECTORY, stored, class_path="CP", user="u")
        return context["am-container-spec"], message.acls

    am, acls = made(RECORD)
    assert "application-acls" not in am
    assert not acls.enable
    chosen = AccessSpec(("ann", "group:ml"))
    am, acls = made(replace(RECORD, job=replace(RECORD.job, acls=chosen)))
    found = {entry["key"]: entry["value"] for entry in am["application-acls"]["entry"]}
    assert found == {"VIEW_APP": "ann ml", "MODIFY_APP": " "}
    assert acls.enable
    assert (list(acls.view_users), list(acls.view_groups)) == (["ann"], ["ml"])
    assert list(acls.ui_users) == [RECORD.job.user, "ann"]
