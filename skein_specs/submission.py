"""What Skein's driver makes of an application before YARN gets it, as functions of values.

Skein's ApplicationMaster (Java) is started by YARN with a directory of small files beside it: its
certificate and key, the scripts of the services, and the whole specification as a protobuf message
in which every file has its place, size and time on HDFS. Skein's driver, a JVM of its own, writes
them and sends the submission. What it does with them (Driver.java of Skein 0.8.2:
``submitApplicationInner``, ``setupAppDir``, ``finalizeService``) is done here without it; who
writes the files and asks the ResourceManager is ``yarnam.adapters.yarn.rest_launcher``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import skein

from yarnam.core.model.job_spec import acl_text
from yarnam.wire.protocol import LOCAL_INTERCEPTOR_FILE

CERTIFICATE_FILE = ".skein.crt"
KEY_FILE = ".skein.pem"
SPEC_FILE = ".skein.proto"
JAR_FILE = ".skein.jar"
_SCRIPT_FILE = ".skein.sh"

AM_HEAP = "-Xmx128M"
"""As Skein's driver has it."""
_NO_EXIT_HOOKS = "-Xrs"
"""A SIGTERM ends the JVM immediately. In the last attempt by number Skein's own hook would tell
YARN that the job has failed (runOnExit in ApplicationMaster.java), where a NodeManager stops,
say."""
_AM_CLASS = "com.anaconda.skein.ApplicationMaster"
_LOG_DIR = "<LOG_DIR>"
"""YARN's word for the container's log directory (ApplicationConstants.LOG_DIR_EXPANSION_VAR)."""

DEFAULT_CLASS_PATH = (
    "{{HADOOP_CONF_DIR}}",
    "{{HADOOP_COMMON_HOME}}/share/hadoop/common/*",
    "{{HADOOP_COMMON_HOME}}/share/hadoop/common/lib/*",
    "{{HADOOP_HDFS_HOME}}/share/hadoop/hdfs/*",
    "{{HADOOP_HDFS_HOME}}/share/hadoop/hdfs/lib/*",
    "{{HADOOP_YARN_HOME}}/share/hadoop/yarn/*",
    "{{HADOOP_YARN_HOME}}/share/hadoop/yarn/lib/*",
)
"""YarnConfiguration.DEFAULT_YARN_CROSS_PLATFORM_APPLICATION_CLASSPATH, for a site that leaves
yarn.application.classpath empty."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A file that lies on HDFS: full URI, bytes, modification time in ms since 1970."""

    uri: str
    size_bytes: int
    modified_ms: int


class Submission:
    """One application on its way to YARN.

    ``application_spec`` comes from :func:`skein_specs.application_spec`, with security of its own.
    A failed attempt of its AM counts for ``attempts_interval_s`` seconds. ``keeps_containers``:
    they outlive their AM, if that has the interceptor, which hands them over to the next attempt.
    The files of :meth:`contents` and of :meth:`local_sources` have to be on HDFS, and what
    :meth:`unseen` names looked at, before the message and the context can be made.
    """

    def __init__(
        self,
        application_spec: skein.ApplicationSpec,
        *,
        attempts_interval_s: float,
        lang: str = "",
        keeps_containers: bool = False,
    ) -> None:
        self._message = application_spec.to_protobuf()
        self._scripts = {
            name: _script_name(service.script) for name, service in self._message.services.items()
        }
        self._attempts_interval_s = attempts_interval_s
        self._lang = lang
        is_handed_over = LOCAL_INTERCEPTOR_FILE in self._message.master.files
        self._keeps_containers = keeps_containers and is_handed_over

    @property
    def file_systems(self) -> tuple[str, ...]:
        """URIs of the file systems that it needs beside the default one."""
        return tuple(self._message.file_systems)

    def contents(self) -> dict[str, bytes]:
        """Small files by name in the application's directory: certificate, key, scripts."""
        security = self._message.master.security
        found = {CERTIFICATE_FILE: security.cert_bytes, KEY_FILE: security.key_bytes}
        for name, service in self._message.services.items():
            # One for all services whose script is the same, which is all of yarnam's.
            found[self._scripts[name]] = service.script.encode()
        return found

    def local_sources(self) -> dict[str, str]:
        """Path on this machine to the name in the application's directory."""
        found = {}
        for file in self._files():
            if file.source.scheme == "file":
                path = file.source.file
                prefix = hashlib.sha256(path.encode()).hexdigest()[:16]
                found[path] = f"{prefix}-{path.rpartition('/')[2]}"
        return found

    def unseen(self) -> frozenset[str]:
        """URIs of files on HDFS whose size and time the specification does not tell."""
        return frozenset(
            _uri(file.source)
            for file in self._files()
            if file.source.scheme != "file" and not (file.size and file.timestamp)
        )

    def completed(self, stored: Mapping[str, Stored]) -> bytes:
        """The message that Skein's ApplicationMaster reads. Call it once. ``stored``: for each name
        of :meth:`contents`, each path of :meth:`local_sources` and each URI of :meth:`unseen`,
        where it lies."""
        message = self._message
        for file in self._files():
            source = file.source
            known = stored.get(source.file if source.scheme == "file" else _uri(source))
            if known is not None:
                _point(file, known)
        for name, service in message.services.items():
            _own(service.files[_SCRIPT_FILE], stored[self._scripts[name]])
            _own(service.files[CERTIFICATE_FILE], stored[CERTIFICATE_FILE])
            _own(service.files[KEY_FILE], stored[KEY_FILE])
            service.script = f"bash {_SCRIPT_FILE} >{_LOG_DIR}/{name}.log 2>&1"
            if self._lang:
                service.env["LANG"] = self._lang
        _own(message.master.security.cert_file, stored[CERTIFICATE_FILE])
        _own(message.master.security.key_file, stored[KEY_FILE])
        encoded: bytes = message.SerializeToString(deterministic=True)
        return encoded

    def context(
        self,
        application: str,
        directory: str,
        stored: Mapping[str, Stored],
        *,
        class_path: str,
        user: str,
    ) -> dict[str, Any]:
        """The ApplicationSubmissionContext as the ResourceManager's REST API takes it. After
        :meth:`completed`. ``stored`` names JAR_FILE and SPEC_FILE as well; ``directory`` is the
        application's own, which Skein's AM removes at the end; ``class_path`` is the AM's."""
        message, master = self._message, self._message.master
        resources = {
            name: _resource(
                _uri(file.source),
                file.size,
                file.timestamp,
                _enum_name(file, "type"),
                _enum_name(file, "visibility"),
            )
            for name, file in master.files.items()
        }
        for name in (CERTIFICATE_FILE, KEY_FILE, SPEC_FILE, JAR_FILE):
            lies = stored[name]
            # The jar is kept on the node for this user's next job: 8 MB are not fetched for each.
            visibility = "PRIVATE" if name == JAR_FILE else "APPLICATION"
            resources[name] = _resource(
                lies.uri, lies.size_bytes, lies.modified_ms, visibility=visibility
            )
        env = {
            **master.env,
            "CLASSPATH": class_path,
            "SKEIN_APPLICATION_ID": application,
            "HADOOP_USER_NAME": user,
            **({"LANG": self._lang} if self._lang else {}),
        }
        context: dict[str, Any] = {
            "application-id": application,
            "application-name": message.name,
            "application-type": "skein",
            "queue": message.queue,
            "priority": 0,
            "max-app-attempts": message.max_attempts,
            "attempt-failures-validity-interval": round(self._attempts_interval_s * 1000),
            "keep-containers-across-application-attempts": self._keeps_containers,
            "application-tags": {"tag": sorted(message.tags)},
            # No GPUs: an AM computes nothing.
            "resource": {"memory": master.resources.memory, "vCores": master.resources.vcores},
            "am-container-spec": {
                "commands": {"command": self._command(directory)},
                "environment": {"entry": _entries(env)},
                "local-resources": {"entry": _entries(resources)},
            },
        }
        if message.acls.enable:
            context["am-container-spec"]["application-acls"] = {
                "entry": _entries(
                    {
                        "VIEW_APP": acl_text(message.acls.view_users, message.acls.view_groups),
                        "MODIFY_APP": acl_text(
                            message.acls.modify_users, message.acls.modify_groups
                        ),
                    }
                )
            }
        if message.node_label:
            context["app-node-label-expression"] = message.node_label
        return context

    def _command(self, directory: str) -> str:
        name = _enum_name(self._message.master, "log_level")
        return (
            f"{{{{JAVA_HOME}}}}/bin/java {AM_HEAP} {_NO_EXIT_HOOKS} -Dskein.log.level={name} "
            f"-Dskein.log.directory={_LOG_DIR} {_AM_CLASS} {directory} "
            f">{_LOG_DIR}/application.master.log 2>&1"
        )

    def _files(self) -> Iterator[Any]:
        yield from self._message.master.files.values()
        for service in self._message.services.values():
            yield from service.files.values()


def class_path(site_value: str) -> str:
    """The AM's CLASSPATH; ``site_value`` is the client's yarn.application.classpath, or empty."""
    given = [part.strip() for part in site_value.split(",") if part.strip()]
    return "<CPS>".join(["{{CLASSPATH}}", "./*", *(given or DEFAULT_CLASS_PATH)])


def _script_name(script: str) -> str:
    return f"{hashlib.sha256(script.encode()).hexdigest()[:16]}.sh"


def _uri(source: Any) -> str:
    port = f":{source.port}" if source.port > 0 else ""
    return f"{source.scheme}://{source.host}{port}{source.file}"


def _point(file: Any, stored: Stored) -> None:
    """Let a ``File`` of Skein's name what is stored; type and visibility stay."""
    scheme, _, rest = stored.uri.partition("://")
    authority, _, path = rest.partition("/")
    host, _, port = authority.rpartition(":")
    if not port.isdecimal():  # a nameservice, or an IPv6 address in brackets
        host, port = authority, "0"
    file.source.scheme, file.source.host, file.source.port = scheme, host, int(port)
    file.source.file = f"/{path}"
    file.size, file.timestamp = stored.size_bytes, stored.modified_ms


def _own(file: Any, stored: Stored) -> None:
    """A file of this application's alone; unset, Skein's message says "for everybody's"."""
    _point(file, stored)
    file.visibility = type(file).Visibility.Value("APPLICATION")


def _resource(
    uri: str, size_bytes: int, modified_ms: int, kind: str = "FILE", visibility: str = "APPLICATION"
) -> dict[str, Any]:
    return {
        "resource": quote(uri, safe="/:@"),
        "type": kind,
        "visibility": visibility,
        "size": size_bytes,
        "timestamp": modified_ms,
    }


def _enum_name(message: Any, field: str) -> str:
    kind = type(message).DESCRIPTOR.fields_by_name[field].enum_type
    return str(kind.values_by_number[getattr(message, field)].name)


def _entries(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in sorted(values.items())]
