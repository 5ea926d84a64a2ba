"""TonY: the properties of a ``tony.xml``, and the arguments of its client.

Keys and defaults: ``TonyConfigurationKeys.java`` and ``tony-default.xml`` of TonY 0.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from yarnam.core.frameworks.registry import FORMER, framework_named
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
from yarnam.spec.importers.tony_keys import OF_ROLES, drop_the_rest
from yarnam.spec.importers.tony_rules import set_rules

FRAMEWORKS = {
    **{name: name for name in ("tensorflow", "pytorch", "horovod")},
    "standalone": "command",
}

ONE = {"tasks": 1}

FRAMEWORK = "tony.application.framework"

MULTI_VALUED = ("tony.containers.envs", "tony.execution.envs", "tony.containers.resources")
"""Keys to which TonY's ``-conf`` adds; of the others it replaces the value."""

OF_TONYS_TESTS = re.compile("TEST_(AM|TASK|WORKER)_[A-Z_]+|SIDECAR_TB_TEST|SKIP_HADOOP_PATH")
"""Variables by which TonY's tests change what its own processes do."""

MOST_TAGS = 7


@dataclass(frozen=True, slots=True)
class Arguments:
    """What TonY's client takes beside its configuration; as there."""

    executes: str = ""
    src_dir: str = ""
    task_params: str = ""
    python_venv: str = ""
    python_binary_path: str = ""
    shell_env: tuple[str, ...] = ()
    container_env: tuple[str, ...] = ()
    hdfs_classpath: str = ""
    sidecar_tensorboard_log_dir: str = ""


LEAST_TIME_LIMIT_MS = 20_000
"""The shortest that a spec takes with its usual ``am.stop_grace``."""


def convert(
    properties: Mapping[str, str], arguments: Arguments | None = None, what: str = "tony.xml"
) -> Conversion:
    """The spec of a TonY job. Raises BadSpec: unknown keys, or none that says what to run."""
    arguments = arguments or Arguments()
    source = Source(what, dict(properties))
    if arguments.sidecar_tensorboard_log_dir:
        key = "tony.application.tensorboard-log-dir"
        source.values[key] = arguments.sidecar_tensorboard_log_dir
    _drop_driver(source)
    named = _role_names(source)
    roles = {name: _role(source, name) for name in named} or {"worker": _single_node(source)}
    set_rules(source, roles)
    spec: dict[str, Any] = {
        "version": 1,
        "name": job_name(source.take("tony.application.name", "tony")),
        "queue": queue_name(source.take("tony.yarn.queue", "default")),
        "framework": _framework(source, roles) if named else "command",
        "command": _command(source, arguments),
        "code": arguments.src_dir,
        "environment": _environment(source, arguments, roles),
        "env": _env(source, what, arguments),
        "files": [*_all_files(source, named), *_venv(arguments)],
        "roles": roles,
        "gang": _gang(source),
        "retry": _retry(source),
        "time_limit": _time_limit(source),
        "compat": "tony",
        "tags": _tags(source),
    }
    label = source.take("tony.application.node-label")
    spec["placement"] = {"node_label": label} if label else {}
    if arguments.hdfs_classpath:
        source.note("--hdfs-classpath", "processes need no jars of TonY's")
    drop_the_rest(source)
    _check_commands(what, spec)
    return source.finish(spec)


def _role_names(source: Source) -> list[str]:
    found = [re.fullmatch(r"tony\.([a-z]+)\.instances", key) for key in source.values]
    names = [one[1] for one in found if one]
    empty = [name for name in names if str(source.values[f"tony.{name}.instances"]).strip() == "0"]
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
    return role


def _single_node(source: Source) -> dict[str, Any]:
    """The program of a job without roles, which TonY runs in its ApplicationMaster, once."""
    source.drop_all(OF_ROLES, "the role has no instances")
    source.note("tony.worker.instances", "no role has instances: TonY runs the program in its "
                "ApplicationMaster, here it is a worker")  # fmt: skip
    source.drop("tony.am.retry-count", "TonY starts a job without roles only once")
    source.drop_all(
        r"tony\.application\.(framework|distributed-mode|enable-preprocess)",
        "the job has one process",
    )
    return _role(source, "am")


def _drop_driver(source: Source) -> None:
    is_debugged = str(source.values.get("tony.horovod.driver.mode.debug")).strip().lower() == "true"
    if is_debugged and _framework_name(source) == "horovod":
        source.drop_all(r"tony\.driver\..*", "the role is Horovod's rendezvous: yarnam has its own")


def _framework_name(source: Source) -> str:
    return str(source.values.get(FRAMEWORK, "tensorflow")).strip().lower()


def _framework(source: Source, roles: Mapping[str, Mapping[str, Any]]) -> str:
    key, name = FRAMEWORK, _framework_name(source)
    source.take(key)
    mode = source.take("tony.application.distributed-mode", "GANG").upper()
    if mode != "GANG":
        source.values["tony.application.distributed-mode"] = mode
        source.drop("tony.application.distributed-mode", "a gang starts together, or not at all")
    if name in FORMER:
        raise BadSpec(f"{source.what}: {name} is not supported any more", hint=FORMER[name])
    if name not in FRAMEWORKS:
        source.note(key, f"yarnam sets no variables for {name} yet")
        return "command"
    if name == "standalone" and sum(role["tasks"] for role in roles.values()) > 1:
        source.note(key, "TonY refuses standalone jobs of more than one task")
    ours = FRAMEWORKS[name]
    rules = framework_named(ours).roles
    trained = [role for role in roles if role in rules.only or not roles[role].get("service")]
    unknown = [role for role in trained if rules.only and role not in rules.only]
    unknown += trained[1:] if rules.one else ()
    unknown += [
        f"{role} of several tasks" for role in rules.single if roles.get(role, ONE)["tasks"] > 1
    ]
    missing = [one for one in rules.needs if not set(one.split(" or ")) & set(trained)]
    if unknown or missing:
        what = ", ".join(unknown or missing)
        text = "has" if missing and not unknown else "knows"
        role = "role" if len(unknown) < 2 else "roles"
        source.note(key, f"{name} {text} no {role} {what} here: CLUSTER_SPEC is set as in TonY, "
                    f"and none of {name}'s own variables")  # fmt: skip
        return "command"
    if ours == "pytorch" and set(trained) != {"worker"}:
        source.note(key, "RANK and WORLD count the processes of all roles; TonY's the workers")
    return ours


def _command(source: Source, arguments: Arguments) -> str:
    """TonY's line: the interpreter, if one is given, what is executed, its arguments. It runs where
    the entries of the sources are, as here."""
    common = source.take("tony.containers.command", "")
    script = arguments.executes.strip()
    if not script:
        return str(common)
    folder = PurePosixPath(arguments.src_dir).name
    if folder and script.startswith(f"{folder}/"):
        script = script[len(folder) + 1 :]
        source.note("--executes", f"is taken as a path in {folder}/, as TonY 0.1 did")
    given = arguments.python_binary_path
    python = "python" if _is_environments(arguments) else given
    if not given and script.split()[0].endswith(".py") and script[0] != "/":
        python = "python3"
    return " ".join(filter(None, (python, script, arguments.task_params)))


def _has_python(arguments: Arguments) -> bool:
    """Whether the client's interpreter is in its archive."""
    path = arguments.python_binary_path
    return bool(arguments.python_venv and path) and not path.startswith("/")


def _is_environments(arguments: Arguments) -> bool:
    """Whether ``python`` in commands is the interpreter that the client was given: one in the
    archive, or one that every node has."""
    path = arguments.python_binary_path
    return _has_python(arguments) or path.startswith("/") or (bool(path) and "/" not in path)


def _environment(
    source: Source, arguments: Arguments, roles: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    given = source.take("tony.python-exec-path", "")
    python = arguments.python_binary_path if _is_environments(arguments) else given
    if python == given and "/" in given and not given.startswith("/"):
        source.note("tony.python-exec-path", "commands name the interpreter themselves")
        python = ""
    found: dict[str, Any] = {"docker": _docker(source, roles), "python": python}
    if _has_python(arguments):
        found["archive"] = arguments.python_venv
        # A bare name would be looked up in the archive's bin.
        found["python"] = python if "/" in python else f"./{python}"
    return {key: value for key, value in found.items() if value}


def _docker(source: Source, roles: Iterable[str]) -> dict[str, Any]:
    values = source.values
    old, new = "tony.application.docker.", "tony.docker."
    is_enabled = any(str(values.get(f"{one}enabled")).lower() == "true" for one in (old, new))
    if not is_enabled:
        return {}
    common = source.take(f"{new}containers.image") or source.take(f"{old}image")
    images = {source.take(f"{new}{name}.image") or common for name in roles}
    mounts = source.take(f"{new}containers.mount", "")
    source.drop_all(r"tony\.(application\.)?docker\.enabled", "the image is in `environment`")
    if len(images) > 1 or None in images:
        text = "one image is for all roles" if len(images) > 1 else "no image is named"
        raise BadSpec(f"{source.what}: tony.docker.enabled: {text}")
    (image,) = images
    found = {"name": image, "mounts": [one.strip() for one in mounts.split(",") if one.strip()]}
    return {key: value for key, value in found.items() if value}


def _env(source: Source, what: str, arguments: Arguments) -> dict[str, str]:
    """TonY sets those of the execution last, on the process itself."""
    containers, execution = "tony.containers.envs", "tony.execution.envs"
    of_containers = assignments(f"{what}: {containers}", source.take(containers, ""))
    of_containers |= _given("--container-env", arguments.container_env)
    of_execution = assignments(f"{what}: {execution}", source.take(execution, ""))
    of_execution |= _given("--shell-env", arguments.shell_env)
    if names := [name for name, value in of_containers.items() if "$" in value]:
        text = f"{', '.join(names)}: $ is not expanded here; export it in the command"
        source.note(containers, text)
    if names := [name for name in of_containers if OF_TONYS_TESTS.fullmatch(name)]:
        source.note(containers, f"{', '.join(names)}: of TonY's own tests, and without effect")
    return of_containers | of_execution


def _given(option: str, texts: Iterable[str]) -> dict[str, str]:
    """TonY's client takes one variable in each option; a value may have blanks."""
    found: dict[str, str] = {}
    for text in texts:
        parts = words(option, text)
        for one in parts if all("=" in part for part in parts) else (text,):
            found.update(assignments(option, one))
    return found


def _all_files(source: Source, roles: Iterable[str]) -> list[dict[str, Any]]:
    """The files of all roles: each container has them all."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for key in ("tony.containers.resources", *(f"tony.{name}.resources" for name in roles)):
        for file in _files(source, key):
            name = file.get("name") or file["source"].rstrip("/").rpartition("/")[2]
            other, known = found.setdefault(name, (key, file))
            if known != file:
                raise BadSpec(
                    f"{source.what}: {key} and {other} name two files {name}",
                    hint="All roles have the same files: give one of them another ::name.",
                )
    return [file for _, file in found.values()]


def _files(source: Source, key: str) -> list[dict[str, Any]]:
    """``path::name#archive``, comma separated."""
    found = []
    for one in filter(None, (part.strip() for part in source.take(key, "").split(","))):
        is_archive = one.lower().endswith("#archive")
        path, *name = (one[: -len("#archive")] if is_archive else one).split("::")
        if len(name) > 1 or not path:
            raise BadSpec(f"{source.what}: {key}: {one!r} is not a path::name#archive")
        file: dict[str, Any] = {"source": path}
        if name and name[0]:
            file["name"] = name[0]
        if is_archive:
            file["archive"] = True
        found.append(file)
    return found


def _venv(arguments: Arguments) -> list[dict[str, Any]]:
    """The client's archive where the job's Python is not in it: TonY unpacks it as ``venv``."""
    if not arguments.python_venv or _has_python(arguments):
        return []
    return [{"source": arguments.python_venv, "name": "venv", "archive": True}]


def _tags(source: Source) -> list[str]:
    """In lower case, as YARN stores them."""
    key = "tony.application.tags"
    given = [one.strip().lower() for one in source.take(key, "").split(",")]
    tags = list(dict.fromkeys(tag for tag in given if tag))
    if len(tags) > MOST_TAGS:
        source.note(key, f"YARN takes {MOST_TAGS} besides yarnam's own: the others are left out")
    return tags[:MOST_TAGS]


def _gang(source: Source) -> dict[str, str]:
    found = {}
    for key, ours in (("allocation", "hold"), ("registration", "launch")):
        milliseconds = source.whole(f"tony.container.{key}.timeout", 0)
        if milliseconds > 0:
            found[f"{ours}_timeout"] = duration(milliseconds)
    return found


def _time_limit(source: Source) -> str | None:
    key = "tony.application.timeout"
    milliseconds = source.whole(key, 0)
    if milliseconds <= 0:
        return None
    source.note(key, "counts while the gang runs; TonY counts from the submit on")
    return duration(max(LEAST_TIME_LIMIT_MS, milliseconds))


def _retry(source: Source) -> dict[str, int]:
    """TonY starts the whole job again, whatever its failure was."""
    if "tony.am.retry-count" not in source.values:
        return {}
    times = source.whole("tony.am.retry-count", 0)
    return {"max_restarts": times, "on_user_failure": times}


def _check_commands(what: str, spec: Mapping[str, Any]) -> None:
    missing = [name for name, role in spec["roles"].items() if "command" not in role]
    if missing and not spec["command"]:
        raise BadSpec(
            f"{what} does not say what {', '.join(missing)} runs",
            hint="TonY's client has it as --executes: give that option too.",
        )
