"""What single values must look like beyond their type, and what two keys together must satisfy.

Checks run also on a document in which stand-ins replace what was already found wrong; each names
the paths it looks at (``involves``) and keeps silent when one of them is broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from yarnam.spec.document import Document
from yarnam.spec.patterns import split_pattern
from yarnam.spec.problems import closest
from yarnam.spec.role_sections import MAX_GPUS, MAX_TASKS, Role
from yarnam.spec.tree import Path, Tree

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
ROLE_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}", re.ASCII)
IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", re.ASCII)
TAG = re.compile(r"[a-z0-9][a-z0-9._:=/-]{0,99}", re.ASCII)
QUEUE = re.compile(r"root(\.[^.\s]+)+")

MAX_TAGS = 8
"""YARN allows 10 (APPLICATION_MAX_TAGS); yarnam adds two of its own."""

SCHEMES = ("hdfs", "viewfs", "webhdfs", "swebhdfs")
OWN_PORTS = frozenset({"coordinator", "task"})
"""Ports that the agents hold for the rendezvous itself."""
TENSORFLOW_ROLES = ("chief", "worker", "ps", "evaluator")

OWN_VARIABLES = {
    "jax": (
        *("COORDINATOR_ADDRESS", "COORDINATOR_PORT", "NUM_PROCESSES", "PROCESS_ID"),
        *("JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_BIND_ADDRESS"),
        *("JAX_NUM_PROCESSES", "JAX_PROCESS_ID"),
    ),
    "pytorch": (
        *("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
        *("GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME"),
        *("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID"),
        "TORCHELASTIC_USE_AGENT_STORE",
    ),
    "tensorflow": ("TF_CONFIG",),
    "command": (),
}
"""What the rendezvous sets for each process (schedulers.md, section 3.3)."""


class Reporter:
    """Says what is wrong, unless something it depends on is already known to be."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def is_sound(self, paths: Iterable[Path]) -> bool:
        return not any(
            bad[: len(path)] == path or path[: len(bad)] == bad
            for path in paths
            for bad in self._tree.broken
        )

    def has(self, path: Path) -> bool:
        """Whether the document has this key or item."""
        return path in self._tree.places

    def say(self, path: Path, message: str, involves: Iterable[Path] | None = None) -> None:
        if self.is_sound((path,) if involves is None else involves):
            place = self._tree.place(path, at_value=involves is None)
            self._tree.add_at(place, path, message)


def check(document: Document, tree: Tree) -> None:
    """Add to the tree's problems whatever the document's sections say against each other."""
    say = Reporter(tree)
    _check_head(document, say)
    _check_shape(document, say)
    for name, role in (document.roles or {}).items():
        _check_role(name, role, document, say)
    _check_framework(document, say)
    _check_gang(document, say)
    _check_environment_variables(document, say)
    _check_ports(document, say)
    _check_data(document, say)


def _check_head(document: Document, say: Reporter) -> None:
    if not NAME.fullmatch(document.name):
        say.say(("name",), "may hold letters, digits, `.`, `_` and `-`, at most 100 of them")
    _check_queue(document.queue, say)
    for index, tag in enumerate(document.tags):
        if not TAG.fullmatch(tag):
            say.say(("tags", index), "may hold a-z, 0-9 and `._:=/-`, at most 100 of them")
        elif tag.startswith("yarnam"):
            say.say(("tags", index), "tags that begin with yarnam are yarnam's own")
    if len(document.tags) > MAX_TAGS:
        say.say(("tags",), f"at most {MAX_TAGS} tags, not {len(document.tags)}")


def _check_queue(queue: str, say: Reporter) -> None:
    path = ("queue",)
    if queue == "default":
        say.say(
            path,
            "`default` does not name a queue: the Fair Scheduler takes it for `no queue given` and"
            " picks one by its rules; write the full name, such as root.default",
        )
    elif queue == "root":
        say.say(path, "`root` is not a leaf queue; write a full name such as root.research")
    elif not queue.startswith("root.") and QUEUE.fullmatch(f"root.{queue}"):
        say.say(path, f"must be the queue's full name; did you mean root.{queue}?")
    elif not QUEUE.fullmatch(queue):
        say.say(path, "must be a full queue name such as root.research")


def _check_shape(document: Document, say: Reporter) -> None:
    both: tuple[Path, ...] = (("gpus",), ("roles",))
    if document.gpus is None and document.roles is None:
        say.say((), "says neither gpus nor roles; write for example gpus: 4", involves=both)
    elif all(say.has(path) for path in both):
        say.say(("roles",), "gpus and roles exclude each other: remove one", involves=())
    elif document.roles is not None and not document.roles:
        say.say(("roles",), "has no role; write for example worker: {tasks: 2, gpus: 4}")
    if document.gpus is not None and document.processes == "per-task":
        say.say(
            ("processes",),
            "with `gpus` the planner chooses the tasks, so each GPU has its process; write roles"
            " to have one process per task",
            (*both, ("processes",)),
        )
    if document.roles is None and document.command is None:
        say.say(
            ("command",),
            "missing; write for example command: [python3, train.py]",
            (*both, ("command",)),
        )
    _check_totals(document, say)


def _check_totals(document: Document, say: Reporter) -> None:
    roles = document.roles or {}
    tasks = sum(role.most_tasks for role in roles.values())
    if tasks > MAX_TASKS:
        say.say(("roles",), f"{tasks} tasks in all; at most {MAX_TASKS}")
    gpus = sum(role.most_tasks * role.gpus for role in roles.values())
    if gpus > MAX_GPUS:
        say.say(("roles",), f"{gpus} GPUs in all; at most {MAX_GPUS}")
    if roles and not gpus:
        for key in ("memory_per_gpu", "vcores_per_gpu"):
            if getattr(document, key) is not None:
                say.say((key,), "no role has GPUs, so this has no effect", ((key,), ("roles",)))
        if document.processes == "per-gpu":
            say.say(("processes",), "no role has GPUs", (("processes",), ("roles",)))


def _check_role(name: str, role: Role, document: Document, say: Reporter) -> None:
    here: Path = ("roles", name)
    if not ROLE_NAME.fullmatch(name):
        say.say(here, "a role's name is a-z, then a-z, 0-9 and `-`, at most 40 of them", ())
    if role.command is None and document.command is None:
        missing: Path = (*here, "command")
        message = "missing, and the job has no command either"
        say.say(missing, message, (missing, ("command",)))
    number, gpus = (*here, "processes_per_task"), (*here, "gpus")
    if role.processes_per_task is not None:
        if role.processes is not None:
            say.say(
                number,
                "processes and processes_per_task exclude each other: remove one",
                (number, (*here, "processes")),
            )
        elif role.gpus and role.gpus % role.processes_per_task:
            say.say(
                number,
                f"{role.processes_per_task} processes cannot share {_gpus(role.gpus)} evenly",
                (number, gpus),
            )
    if role.processes == "per-gpu" and not role.gpus:
        say.say((*here, "processes"), "the role has no GPUs", ((*here, "processes"), gpus))


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _check_framework(document: Document, say: Reporter) -> None:
    roles = document.roles
    if not roles:
        return
    involves = (("framework",), ("roles",))
    names = list(roles)
    if document.framework == "jax" and len(names) > 1:
        say.say(
            ("roles", names[1]),
            "framework jax runs one program in all processes: one role only",
            involves,
        )
    if document.framework != "tensorflow":
        return
    for name in names:
        if name not in TENSORFLOW_ROLES:
            known = ", ".join(TENSORFLOW_ROLES)
            message = f"TF_CONFIG knows {known}{closest(name, TENSORFLOW_ROLES)}"
            say.say(("roles", name), message, (("framework",),))
    if not {"chief", "worker"} & set(names):
        say.say(("roles",), "framework tensorflow needs a role chief or worker", involves)
    for name in ("chief", "evaluator"):
        if name in roles and roles[name].most_tasks > 1:
            path = ("roles", name, "tasks")
            count = roles[name].most_tasks
            say.say(path, f"TF_CONFIG has one {name}, not {count}", (path, ("framework",)))


def _check_gang(document: Document, say: Reporter) -> None:
    gang, wait = document.gang, ("gang", "wait_timeout")
    for key in ("hold_timeout", "ask_timeout"):
        path = ("gang", key)
        if key in gang.model_fields_set and getattr(gang, key) > gang.wait_timeout:
            say.say(path, f"{key} is longer than wait_timeout, the whole wait", (path, wait))
    backoff = gang.backoff
    if {"base", "cap"} <= backoff.model_fields_set and backoff.base > backoff.cap:
        here = ("gang", "backoff", "base")
        say.say(here, "base is longer than cap", (here, ("gang", "backoff", "cap")))


def _check_environment_variables(document: Document, say: Reporter) -> None:
    everywhere: set[Path] = {("env", name) for name in document.env}
    for role_name, role in (document.roles or {}).items():
        everywhere |= {("roles", role_name, "env", name) for name in role.env}
    for path in everywhere:
        _check_variable(path, document.framework, say)
    _check_secret_values(document, say)
    known = {str(path[-1]) for path in everywhere}
    for index, name in enumerate(document.secret_env):
        if name not in known:
            say.say(
                ("secret_env", index),
                f"is not in env{closest(name, known)} (write {name}: {{from: client}} in env to"
                " take it from the submitting environment)",
                (("secret_env", index), ("env",), ("roles",)),
            )


def _check_secret_values(document: Document, say: Reporter) -> None:
    """Secrets travel by name, apart from the roles, so each has one value."""
    first = dict(document.env)
    for role_name, role in (document.roles or {}).items():
        for name, value in role.env.items():
            is_secret = name in document.secret_env or not isinstance(value, str)
            is_secret = is_secret or not isinstance(first.get(name, ""), str)
            if is_secret and first.setdefault(name, value) != value:
                path: Path = ("roles", role_name, "env", name)
                say.say(path, "a secret variable has one value in the whole job", (path, ("env",)))


def _check_variable(path: Path, framework: str, say: Reporter) -> None:
    name = str(path[-1])
    if not VARIABLE.fullmatch(name):
        say.say(path, "a variable's name is letters, digits and `_`, not first a digit", ())
    elif name.startswith(("YARNAM_", "SKEIN_")) or name == "CUDA_VISIBLE_DEVICES":
        say.say(path, "yarnam sets this variable itself: remove it", ())
    elif name in OWN_VARIABLES[framework]:
        say.say(
            path, f"framework {framework} sets this variable itself: remove it", (("framework",),)
        )


def _check_ports(document: Document, say: Reporter) -> None:
    _check_port_list(("ports",), document.ports, (), say)
    for name, role in (document.roles or {}).items():
        _check_port_list(("roles", name, "ports"), role.ports, document.ports, say)


def _check_port_list(path: Path, names: list[str], inherited: Iterable[str], say: Reporter) -> None:
    seen = set(inherited)
    for index, name in enumerate(names):
        if not IDENTIFIER.fullmatch(name):
            say.say(
                (*path, index), "a port's name is a-z, then a-z, 0-9 and `_`, at most 40 of them"
            )
        elif name in OWN_PORTS:
            say.say((*path, index), f"the port {name} is yarnam's own; choose another name")
        elif name in seen:
            say.say((*path, index), "this port's name is given twice")
        seen.add(name)


def _check_data(document: Document, say: Reporter) -> None:
    names: set[str] = set()
    places: list[tuple[Path, str]] = []
    for index, source in enumerate(document.data.inputs):
        here: Path = ("data", "inputs", index)
        path = _deepest(here, "path", say)
        root, pattern = split_pattern(source.path)
        if "**" in pattern:
            say.say(path, "`**` is not known; a pattern that fits a directory takes all below it")
        else:
            _check_uri(path, root, say)
        places.append((path, root))
        name = source.name or default_input_name(root)
        if source.name is not None and not IDENTIFIER.fullmatch(name):
            say.say((*here, "name"), "an input's name is a-z, then a-z, 0-9 and `_`")
        elif name in names:
            say.say(here, f"two inputs are named {name}; give one of them another name", (here,))
        names.add(name)
    written: list[tuple[Path, str]] = []
    if document.data.outputs is not None:
        path = _deepest(("data", "outputs"), "path", say)
        written.append((path, document.data.outputs.path))
    if document.checkpoint is not None:
        written.append((("checkpoint", "directory"), document.checkpoint.directory))
    for path, uri in written:
        _check_uri(path, uri, say)
        if not urlsplit(uri).path.strip("/"):
            say.say(path, "must be a directory below the root")
        for other_path, other in places:
            if _overlap(uri, other):
                message = f"overlaps {other}: what is written there could be read as the other"
                say.say(path, message, (path, other_path))
        places.append((path, uri))


def _deepest(here: Path, key: str, say: Reporter) -> Path:
    """An input may be one text: then it has no key of its own."""
    return (*here, key) if say.has((*here, key)) else here


def default_input_name(uri: str) -> str:
    """``hdfs:///data/Digits-v2.npz`` is ``digits_v2``."""
    last = uri.rstrip("/").rsplit("/", 1)[-1].split(".")[0].lower()
    name = re.sub(r"[^a-z0-9_]+", "_", last).strip("_")[:40]
    return name if IDENTIFIER.fullmatch(name) else "input"


def _check_uri(path: Path, uri: str, say: Reporter) -> None:
    try:
        parts = urlsplit(uri)
    except ValueError:
        say.say(path, "is not a valid URI")
        return
    if any(char in uri for char in "*?["):
        say.say(path, "a pattern; write a directory")
    elif not parts.scheme:
        if not uri.startswith("/"):
            say.say(path, "nodes cannot see relative paths; write hdfs:///... or an absolute path")
        elif uri.startswith("//"):
            say.say(path, "begins with `//`; write hdfs://... or one slash")
    elif parts.scheme == "file":
        say.say(path, "not supported yet: file:// (nodes would see different files); use hdfs://")
    elif parts.scheme not in SCHEMES:
        hint = closest(parts.scheme, SCHEMES) or f"; one of {', '.join(SCHEMES)}"
        say.say(path, f"{parts.scheme}:// is not a filesystem of this cluster{hint}")
    elif not parts.path.startswith("/"):
        say.say(path, f"has no absolute path; write for example {parts.scheme}:///data/digits")


def _overlap(one: str, other: str) -> bool:
    first, second = (_canonical(one), _canonical(other))
    return first[:2] == second[:2] and (
        first[2].startswith(second[2]) or second[2].startswith(first[2])
    )


def _canonical(uri: str) -> tuple[str, str, str]:
    parts = urlsplit(uri)
    steps = [step for step in parts.path.split("/") if step not in {"", "."}]
    # hdfs:///x and /x both mean the default filesystem, on nearly every cluster.
    scheme = "" if parts.scheme == "hdfs" and not parts.netloc else parts.scheme
    return scheme, parts.netloc, "/" + "".join(f"{step}/" for step in steps)
