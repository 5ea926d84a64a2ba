"""TonY: the properties of a ``tony.xml``, and the arguments of its client.

Keys and defaults: ``TonyConfigurationKeys.java`` and ``tony-default.xml`` of TonY 0.5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from yarnam.core.frameworks.registry import FORMER
from yarnam.errors import BadSpec
from yarnam.spec.importers.conversion import (
    Conversion,
    Source,
    assignments,
    duration,
    job_name,
    memory,
    queue_name,
    words,
)

FRAMEWORKS = {
    **{name: name for name in ("tensorflow", "pytorch", "horovod")},
    "standalone": "command",
}

_OF_TONY = {
    r"tony\.(history|portal|https|keytab)\..*": "of TonY's own servers; see `yarnam history`",
    r"tony\.task\..*": "of TonY's executors; the agents' limits are in `am` of the spec",
    r"tony\.horovod\..*": "of TonY's Horovod driver, which is not needed",
    r"tony\.docker\..*": "yarnam starts no container images yet",
    r"tony\.am\..*": "the ApplicationMaster asks for what it needs; see `am` of the spec",
    r"tony\.application\.(group|dependency)\..*": "all roles start together, and a failed or "
    "missing task ends the gang",
    r"tony\.application\.(prepare|training)-stage": "all roles start together",
    r"tony\.application\.(placement-spec|hdfs-conf-path|yarn-conf-path|mapred-conf-path)": "yarnam "
    "reads the site's configuration, and `placement` says where tasks run",
    r"tony\.application\.hadoop\..*": "processes need no Hadoop",
    r"tony\.application\.(type|security\.enabled|enable-preprocess)": "of TonY's client",
    r"tony\.application\.num-client-rm-connect-retries": "of TonY's client",
    r"tony\.application\.tensorboard-log-dir": "run `yarnam tensorboard JOB` beside the job",
    r"tony\.application\.timeout": "yarnam does not limit a job's run time",
    r"tony\.other\.namenodes": "tokens are fetched for every file system that the spec names",
    r"tony\.gpu-exec-path": "agents find nvidia-smi on the PATH",
    r"tony\.[a-z]+\.(max-instances|depends-on)": "TonY's client only checks or ignores it",
    r"tony\.[a-z]+\.(placement-spec|allocation-tags)": "`placement` says where tasks run",
}
"""Patterns of the keys that are dropped, and why."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What TonY's client takes beside its configuration; as there."""

    executes: str = ""
    src_dir: str = ""
    task_params: str = ""
    python_venv: str = ""
    python_binary_path: str = ""
    shell_env: str = ""


def convert(
    properties: Mapping[str, str], arguments: Arguments | None = None, what: str = "tony.xml"
) -> Conversion:
    """The spec of a TonY job. Raises BadSpec: unknown keys, or none that says what to run."""
    arguments = arguments or Arguments()
    source = Source(what, {k: v for k, v in properties.items() if k.startswith("tony.")})
    framework = source.take("tony.application.framework", "tensorflow").lower()
    roles = {name: _role(source, name) for name in _role_names(source)}
    if not roles:
        raise BadSpec(
            f"{what} has no role with instances (tony.worker.instances)",
            hint="TonY runs such a job in its ApplicationMaster; give it one worker.",
        )
    spec: dict[str, Any] = {
        "version": 1,
        "name": job_name(source.take("tony.application.name", "tony")),
        "queue": queue_name(source.take("tony.yarn.queue", "default")),
        "framework": _framework(source, framework),
        "command": _command(source, arguments),
        "code": arguments.src_dir,
        "environment": _environment(source, arguments),
        "env": _env(source, what, arguments),
        "files": _files(source.take("tony.containers.resources", "")),
        "roles": roles,
        "gang": _gang(source),
        "retry": _retry(source),
        "compat": "tony",
        "tags": [tag for tag in source.take("tony.application.tags", "").split(",") if tag],
    }
    _set_rules(source, roles)
    label = source.take("tony.application.node-label")
    spec["placement"] = {"node_label": label} if label else {}
    spec["files"] += [file for role in roles.values() for file in role.pop("files")]
    for pattern, why in _OF_TONY.items():
        source.drop_all(pattern, why)
    _check_commands(what, spec)
    return source.finish(spec)


def _role_names(source: Source) -> list[str]:
    found = [re.fullmatch(r"tony\.([a-z]+)\.instances", key) for key in source.values]
    names = [one[1] for one in found if one]
    empty = [name for name in names if source.values[f"tony.{name}.instances"] == "0"]
    for name in empty:
        source.drop_all(rf"tony\.{name}\..*", "the role has no instances")
    return [name for name in names if name not in empty]


def _role(source: Source, name: str) -> dict[str, Any]:
    prefix = f"tony.{name}."
    role: dict[str, Any] = {
        "tasks": source.whole(f"{prefix}instances", 1),
        "gpus": source.whole(f"{prefix}gpus", 0),
        "memory": memory(source.take(f"{prefix}memory", "2g")),
        "vcores": source.whole(f"{prefix}vcores", 1),
        # TonY starts one process in a container.
        "processes": "per-task",
    }
    if command := source.take(f"{prefix}command"):
        role["command"] = command
    if label := source.take(f"{prefix}node-label"):
        role["node_label"] = label
    role["files"] = _files(source.take(f"{prefix}resources", ""))
    return role


def _framework(source: Source, name: str) -> str:
    mode = source.take("tony.application.distributed-mode", "GANG").upper()
    if mode != "GANG":
        source.values["tony.application.distributed-mode"] = mode
        source.drop("tony.application.distributed-mode", "a gang starts together, or not at all")
    if name in FORMER:
        raise BadSpec(f"{source.what}: {name} is not supported any more", hint=FORMER[name])
    if name in FRAMEWORKS:
        return FRAMEWORKS[name]
    source.values["tony.application.framework"] = name
    source.drop("tony.application.framework", f"yarnam sets no variables for {name} yet")
    return "command"


def _command(source: Source, arguments: Arguments) -> str:
    common = source.take("tony.containers.command", "")
    if not arguments.executes:
        return str(common)
    python = arguments.python_binary_path or "python3"
    script = arguments.executes
    if arguments.src_dir and not script.startswith("/"):
        script = f"code/{script}"
    is_python = script.split()[0].endswith(".py")
    return " ".join(filter(None, (python if is_python else "", script, arguments.task_params)))


def _environment(source: Source, arguments: Arguments) -> dict[str, str]:
    python = source.take("tony.python-exec-path", "")
    if arguments.python_venv:
        return {"archive": arguments.python_venv}
    return {"python": python} if python else {}


def _env(source: Source, what: str, arguments: Arguments) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in ("tony.execution.envs", "tony.containers.envs"):
        found.update(assignments(f"{what}: {key}", source.take(key, "")))
    for one in words("--shell-env", arguments.shell_env):
        found.update(assignments("--shell-env", one))
    return found


def _files(text: str) -> list[dict[str, Any]]:
    """``path::name#archive``, comma separated."""
    found = []
    for one in filter(None, (part.strip() for part in text.split(","))):
        plain, _, kind = one.partition("#")
        path, _, name = plain.partition("::")
        file: dict[str, Any] = {"source": path}
        if name:
            file["name"] = name
        if kind == "archive":
            file["archive"] = True
        found.append(file)
    return found


def _gang(source: Source) -> dict[str, str]:
    found = {}
    for key, ours in (("allocation", "hold"), ("registration", "launch")):
        milliseconds = source.whole(f"tony.container.{key}.timeout", 0)
        if milliseconds > 0:
            found[f"{ours}_timeout"] = duration(milliseconds)
    return found


def _retry(source: Source) -> dict[str, int]:
    """TonY starts the whole job again, whatever its failure was."""
    times = source.whole("tony.am.retry-count", 0)
    return {"max_restarts": times, "on_user_failure": times} if times else {}


def _set_rules(source: Source, roles: dict[str, dict[str, Any]]) -> None:
    """Which roles end with the others, and which may fail. TonY's chief is the role ``chief``, else
    the first worker; what else fails passes, unless TonY's settings say otherwise."""
    application = "tony.application."
    untracked = _named(source, f"{application}untracked.jobtypes", "ps")
    sidecar = _named(source, f"{application}sidecar.jobtypes", "")
    strict = _named(source, f"{application}stop-on-failure-jobtypes", "")
    key = f"{application}fail-on-worker-failure-enabled"
    is_soft = str(source.take(key, "false")).lower() != "true"
    tracked = [name for name in roles if name not in untracked | sidecar]
    chief = "chief" if "chief" in roles else "worker" if "worker" in tracked else ""
    for name, role in roles.items():
        if name in untracked | sidecar and tracked:
            role["service"] = True
            if name in sidecar:
                role["optional"] = True
        elif is_soft and name not in strict and name != "chief" and chief:
            _let_pass(source, key, name, role, chief)


def _let_pass(source: Source, key: str, name: str, role: dict[str, Any], chief: str) -> None:
    if name != chief:
        role["optional"] = True
        source.note(key, f"as in TonY, a failed {name} passes: remove `optional` to change that")
    elif role["tasks"] > 1:
        role["completion"] = "chief"
        source.note(key, f"the {name}s end with the first one; TonY waits for all of them")


def _named(source: Source, key: str, default: str) -> set[str]:
    return {one.strip() for one in source.take(key, default).split(",") if one.strip()}


def _check_commands(what: str, spec: Mapping[str, Any]) -> None:
    missing = [name for name, role in spec["roles"].items() if "command" not in role]
    if missing and not spec["command"]:
        raise BadSpec(
            f"{what} does not say what {', '.join(missing)} runs",
            hint="TonY's client has it as --executes: give that option too.",
        )
