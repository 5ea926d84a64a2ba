"""Checks of single values beyond their type, and of two keys together.

Checks also run on a document in which placeholders replace the values already found wrong. Each
check names the paths it reads (``involves``) and reports nothing when one of them is broken.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import gcd
from urllib.parse import urlsplit

from yarnam.core.frameworks.compat_tony import VARIABLES as TONY_VARIABLES
from yarnam.core.frameworks.registry import NAMES, framework_named
from yarnam.core.frameworks.task_ports import COORDINATOR_PORT, TASK_PORT
from yarnam.core.model.ids import PRE_RUN_ROLE
from yarnam.core.model.job_spec import (
    MAX_TASKS,
    NOTEBOOK_FILES,
    NOTEBOOK_PORT,
    STOP_MARGIN_S,
)
from yarnam.spec.problems import closest
from yarnam.spec.sections.data_sections import Checkpoint, split_pattern
from yarnam.spec.sections.document import Document
from yarnam.spec.sections.role_sections import MAX_GPUS, GpuRange, Role, TaskRange
from yarnam.spec.yaml_tree import Path, Tree

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
ACL_ENTRY = re.compile(r"\*|(group:)?[A-Za-z0-9_][A-Za-z0-9._@$-]{0,254}", re.ASCII)
ROLE_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}", re.ASCII)
IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", re.ASCII)
TAG = re.compile(r"[a-z0-9][a-z0-9._:=/-]{0,99}", re.ASCII)
QUEUE = re.compile(r"root(\.[^.\s]+)+")

MAX_TAGS = 7
"""YARN allows 10 (APPLICATION_MAX_TAGS); yarnam adds up to three of its own."""

SCHEMES = ("hdfs", "viewfs", "webhdfs", "swebhdfs")
OWN_PORTS = frozenset({COORDINATOR_PORT, TASK_PORT})
"""Ports that the agents hold for the rendezvous itself."""


class Problems:
    """Adds problems to a tree, except those that follow from a problem already reported."""

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

    def add(self, path: Path, message: str, involves: Iterable[Path] | None = None) -> None:
        if self.is_sound((path,) if involves is None else involves):
            position = self._tree.position(path, at_value=involves is None)
            self._tree.add_at(position, path, message)


def check(document: Document, tree: Tree) -> None:
    """Add a problem to the tree for each value or combination of keys that cannot work."""
    problems = Problems(tree)
    _check_head(document, problems)
    _check_shape(document, problems)
    for name, role in (document.roles or {}).items():
        _check_role(name, role, document, problems)
    _check_framework(document, problems)
    _check_gang(document, problems)
    _check_time_limit(document, problems)
    _check_environment_variables(document, problems)
    _check_ports(document, problems)
    _check_notify(document, problems)
    _check_acls(document, problems)
    _check_data(document, problems)
    _check_elastic(document, problems)
    _check_placement(document, problems)


def _check_head(document: Document, problems: Problems) -> None:
    if not NAME.fullmatch(document.name):
        problems.add(
            ("name",), "must consist of letters, digits, `.`, `_` and `-`, at most 100 characters"
        )
    _check_queue(document.queue.name, problems)
    for index, message in tag_problems(document.tags):
        problems.add(("tags",) if index is None else ("tags", index), message)


def _check_acls(document: Document, problems: Problems) -> None:
    for key in ("view", "modify"):
        for index, entry in enumerate(getattr(document.acls, key)):
            if not ACL_ENTRY.fullmatch(entry):
                problems.add(
                    ("acls", key, index), "must be a user's name, `group:` and a name, or `*`"
                )


def tag_problems(tags: Sequence[str]) -> Iterator[tuple[int | None, str]]:
    """Report the problems of application tags, by index; ``None`` for a problem with their
    number."""
    for index, tag in enumerate(tags):
        if not TAG.fullmatch(tag):
            yield index, "must consist of a-z, 0-9 and `._:=/-`, at most 100 characters"
        elif tag.startswith("yarnam"):
            yield index, "tags that begin with yarnam are reserved"
    if len(tags) > MAX_TAGS:
        yield None, f"at most {MAX_TAGS} tags are allowed, not {len(tags)}"


def _check_queue(queue: str, problems: Problems) -> None:
    path = ("queue",)
    if queue == "default":
        problems.add(
            path,
            "`default` is not a full queue name: the Fair Scheduler reads it as `no queue` and "
            "picks one by its placement rules; write the full name, such as root.default",
        )
    elif queue == "root":
        problems.add(path, "`root` is not a leaf queue; write a full name such as root.research")
    elif not queue.startswith("root.") and QUEUE.fullmatch(f"root.{queue}"):
        problems.add(path, f"must be the full queue name; did you mean root.{queue}?")
    elif not QUEUE.fullmatch(queue):
        problems.add(path, "must be a full queue name such as root.research")


def _check_shape(document: Document, problems: Problems) -> None:
    both: tuple[Path, ...] = (("gpus",), ("roles",))
    if document.notebook is not None:
        _check_notebook(document, problems)
    if document.gpus is None and document.roles is None and document.notebook is None:
        problems.add((), "has neither gpus nor roles; write for example gpus: 4", involves=both)
    elif all(problems.has(path) for path in both):
        problems.add(("roles",), "gpus and roles cannot be used together: remove one", involves=())
    elif document.roles is not None and not document.roles:
        problems.add(("roles",), "has no role; write for example worker: {tasks: 2, gpus: 4}")
    if document.gpus is not None and document.processes == "per-task" and not document.notebook:
        problems.add(
            ("processes",),
            "with `gpus` the planner chooses the tasks and starts one process per GPU; use roles to"
            " run one process per task",
            (*both, ("processes",)),
        )
    if document.roles is None and document.command is None and document.notebook is None:
        problems.add(
            ("command",),
            "missing; write for example command: [python3, train.py]",
            (*both, ("command",)),
        )
    _check_totals(document, problems)


def _check_notebook(document: Document, problems: Problems) -> None:
    """It is one process that never ends on its own account."""
    here: Path = ("notebook",)
    refused: dict[Path, str] = {
        ("command",): "a notebook runs its own server",
        ("hang",): "a notebook is not watched for hangs: it waits for its user",
        ("stop_early",): "a notebook ends by notebook.idle_timeout",
        ("elastic",): "a notebook has one size",
        ("processes",): "a notebook is one process, which sees all of its GPUs",
        ("checkpoint", "mirror"): f"the files that are kept are those in {NOTEBOOK_FILES}",
    }
    if document.pre_run.mode != "off":
        refused["pre_run",] = "a notebook has nothing to try"
    if document.framework != "command":
        refused["framework",] = "a notebook has none; your cells choose what they import"
    if document.gpus is None and document.roles is None:
        for key in ("memory_per_gpu", "vcores_per_gpu"):
            refused[key,] = "has no effect without GPUs; give a role its memory and vcores"
    for name in document.roles or {}:
        for key in ("command", "processes", "processes_per_task", "service", "optional"):
            refused["roles", name, key] = "a notebook runs its own server, in one process"
    for path, reason in refused.items():
        if problems.has(path):
            problems.add(path, f"{reason}: remove {path[-1]}", (path, here))
    if not document.interactive:
        text = "a notebook is reached by a session: remove interactive"
        problems.add(("interactive",), text, (("interactive",), here))
    if document.roles and [role.tasks for role in document.roles.values()] != [1]:
        text = "a notebook is one task; it can submit other jobs with yarnam.Client"
        problems.add(("roles",), text, (("roles",), here))
    if isinstance(document.gpus, GpuRange):
        text = "a notebook has one size: write a number"
        problems.add(("gpus",), text, (("gpus",), here))


def _check_totals(document: Document, problems: Problems) -> None:
    roles = document.roles or {}
    tasks = sum(role.most_tasks for role in roles.values())
    if tasks > MAX_TASKS:
        problems.add(("roles",), f"{tasks} tasks in total; at most {MAX_TASKS} are allowed")
    gpus = sum(role.most_tasks * role.gpus for role in roles.values())
    if gpus > MAX_GPUS:
        problems.add(("roles",), f"{gpus} GPUs in total; at most {MAX_GPUS} are allowed")
    if roles and not gpus:
        for key in ("memory_per_gpu", "vcores_per_gpu"):
            if getattr(document, key) is not None:
                problems.add((key,), "has no effect: no role has GPUs", ((key,), ("roles",)))
        if document.processes == "per-gpu":
            problems.add(("processes",), "per-gpu: no role has GPUs", (("processes",), ("roles",)))


def _check_role(name: str, role: Role, document: Document, problems: Problems) -> None:
    here: Path = ("roles", name)
    if not ROLE_NAME.fullmatch(name):
        problems.add(
            here,
            "a role name must start with a-z and consist of a-z, 0-9 and `-`, at most 40 "
            "characters",
            (),
        )
    if name == PRE_RUN_ROLE:
        problems.add(here, f"the name {PRE_RUN_ROLE} is that of a pre-run's task: use another", ())
    if role.command is None and document.command is None and document.notebook is None:
        missing: Path = (*here, "command")
        message = "missing, and the job has no command"
        problems.add(missing, message, (missing, ("command",)))
    number, gpus = (*here, "processes_per_task"), (*here, "gpus")
    if role.processes_per_task is not None:
        if role.processes is not None:
            problems.add(
                number,
                "processes and processes_per_task cannot be used together: remove one",
                (number, (*here, "processes")),
            )
        elif role.gpus and role.gpus % role.processes_per_task:
            problems.add(
                number,
                f"{role.processes_per_task} processes cannot share {_gpus(role.gpus)} evenly",
                (number, gpus),
            )
    if role.processes == "per-gpu" and not role.gpus:
        problems.add(
            (*here, "processes"), "per-gpu: the role has no GPUs", ((*here, "processes"), gpus)
        )


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _check_framework(document: Document, problems: Problems) -> None:
    framework = framework_named(document.framework)
    if framework.is_launcher:
        _check_launcher(document, problems)
    roles, rules = document.roles, framework.roles
    if not roles:
        return
    here: tuple[Path, ...] = (("framework",),)
    involves = (*here, ("roles",))
    subject = f"framework {document.framework}"
    # Services beside the training are outside of the framework.
    names = [name for name in roles if name in rules.only or not roles[name].service]
    if rules.one and len(names) > 1:
        text = f"{subject} runs the same program in all processes: use one role"
        problems.add(("roles", names[1]), text, involves)
    for name in names if rules.only else ():
        if name not in rules.only:
            text = f"{subject} has only the roles {', '.join(rules.only)}"
            problems.add(("roles", name), text + closest(name, rules.only), here)
    for needed in rules.needs:
        choices = needed.split(" or ")
        if not set(choices) & set(names):
            problems.add(("roles",), f"{subject} needs a role {needed}", involves)
    for name in rules.single:
        count = roles[name].most_tasks if name in roles else 1
        if count > 1:
            path = ("roles", name, "tasks")
            problems.add(path, f"{subject} allows one {name}, not {count}", (path, *here))


def _check_launcher(document: Document, problems: Problems) -> None:
    """Its process in each task starts the others."""
    here: Path = ("framework",)
    subject = f"framework {document.framework}"
    if document.gpus is not None:
        text = f"{subject} starts the processes of a task itself: use roles, not gpus"
        problems.add(("gpus",), text, (("gpus",), here))
    places: list[Path] = [("processes",)]
    for name in document.roles or {}:
        places += [("roles", name, "processes"), ("roles", name, "processes_per_task")]
    for path in places:
        if problems.has(path):
            text = f"{subject} starts the processes of a task itself: remove {path[-1]}"
            problems.add(path, text, (path, here))


def _check_gang(document: Document, problems: Problems) -> None:
    gang, wait = document.gang, ("gang", "wait_timeout")
    for key in ("hold_timeout", "ask_timeout", "localize_timeout"):
        path = ("gang", key)
        if key in gang.model_fields_set and getattr(gang, key) > gang.wait_timeout:
            problems.add(path, f"{key} must not be longer than wait_timeout", (path, wait))
    backoff = gang.backoff
    if {"base", "cap"} <= backoff.model_fields_set and backoff.base > backoff.cap:
        here = ("gang", "backoff", "base")
        problems.add(here, "base must not be longer than cap", (here, ("gang", "backoff", "cap")))


def _check_time_limit(document: Document, problems: Problems) -> None:
    limit, path = document.time_limit, ("time_limit",)
    if limit is None:
        return
    if document.duration is not None and document.duration > limit:
        text = "is longer than time_limit, which ends the job before"
        problems.add(("duration",), text, (("duration",), path))
    grace: Path = ("am", "stop_grace")
    if limit <= document.am.stop_grace + STOP_MARGIN_S:
        least = document.am.stop_grace + STOP_MARGIN_S
        text = f"leaves no time to run: the stop alone takes up to {least:g} s (am.stop_grace)"
        problems.add(path, text, (path, grace))


def _check_environment_variables(document: Document, problems: Problems) -> None:
    everywhere: set[Path] = {("env", name) for name in document.env}
    for role_name, role in (document.roles or {}).items():
        everywhere |= {("roles", role_name, "env", name) for name in role.env}
    for path in everywhere:
        _check_variable(path, document.framework, problems)
        own = framework_named(document.framework).variables
        if document.compat and path[-1] in TONY_VARIABLES and path[-1] not in own:
            problems.add(path, "compat: tony sets this variable: remove it", (("compat",),))
    _check_secret_values(document, problems)
    known = {str(path[-1]) for path in everywhere}
    for index, name in enumerate(document.secret_env):
        if name not in known:
            problems.add(
                ("secret_env", index),
                f"is not in env{closest(name, known)} (to take it from the submitting environment,"
                f" write {name}: {{from: client}} in env)",
                (("secret_env", index), ("env",), ("roles",)),
            )


def _check_secret_values(document: Document, problems: Problems) -> None:
    """Secrets are sent by name, without their role: a name can have only one value."""
    first = dict(document.env)
    for role_name, role in (document.roles or {}).items():
        for name, value in role.env.items():
            is_secret = name in document.secret_env or not isinstance(value, str)
            is_secret = is_secret or not isinstance(first.get(name, ""), str)
            if is_secret and first.setdefault(name, value) != value:
                path: Path = ("roles", role_name, "env", name)
                problems.add(
                    path,
                    "a secret variable must have the same value in all roles",
                    (path, ("env",)),
                )


def _check_variable(path: Path, framework: str, problems: Problems) -> None:
    name = str(path[-1])
    if not VARIABLE.fullmatch(name):
        problems.add(
            path,
            "a variable name must consist of letters, digits and `_`, and not start with a digit",
            (),
        )
    elif name.startswith(("YARNAM_", "SKEIN_")) or name == "CUDA_VISIBLE_DEVICES":
        problems.add(path, "yarnam sets this variable: remove it", ())
    elif name in framework_named(framework).variables:
        problems.add(
            path, f"framework {framework} sets this variable: remove it", (("framework",),)
        )


CHANNEL_URLS = {
    "webhook": "http://host... or https://host...",
    "slack": "http://host... or https://host...",
    "mail": "smtp://host or smtps://host",
}
"""The forms of a notification's URL, by kind. Messages never quote one: it may be a secret."""

MAIL_ADDRESS = re.compile(r"[^\s@<>,;]{1,64}@[^\s@<>,;]{1,255}", re.ASCII)


def is_channel_url(kind: str, url: str) -> bool:
    """Whether this is the URL of a receiver of this kind."""
    schemes = ("smtp", "smtps") if kind == "mail" else ("http", "https")
    if not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        has_user = parts.username is not None and kind != "mail"
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0 and not has_user
    except ValueError:
        return False


def _check_notify(document: Document, problems: Problems) -> None:
    for index, channel in enumerate(document.notify):
        path: Path = ("notify", index)
        if (channel.url is None) == (channel.url_from is None):
            problems.add(path, "needs either `url` or `url_from`")
        if channel.kind == "mail" and not channel.to:
            problems.add(path, "a mail needs addresses in `to`")
        addresses = [((*path, "to", number), one) for number, one in enumerate(channel.to)]
        if channel.sender is not None:
            addresses.append(((*path, "sender"), channel.sender))
        for where, address in addresses:
            if channel.kind != "mail":
                problems.add(where, f"only a mail has addresses, not `kind: {channel.kind}`")
            elif not MAIL_ADDRESS.fullmatch(address):
                problems.add(where, "must be an address such as me@example.com")


def _check_ports(document: Document, problems: Problems) -> None:
    reserved = OWN_PORTS | {*framework_named(document.framework).ports}
    if document.notebook is not None:
        reserved = reserved | {NOTEBOOK_PORT}
    _check_port_list(("ports",), document.ports, (), reserved, problems)
    for name, role in (document.roles or {}).items():
        path: Path = ("roles", name, "ports")
        _check_port_list(path, role.ports, document.ports, reserved, problems)


def _check_port_list(
    path: Path,
    names: list[str],
    inherited: Iterable[str],
    reserved: Collection[str],
    problems: Problems,
) -> None:
    seen = set(inherited)
    for index, name in enumerate(names):
        if not IDENTIFIER.fullmatch(name):
            problems.add(
                (*path, index),
                "a port name must start with a-z and consist of a-z, 0-9 and `_`, at most 40 "
                "characters",
            )
        elif name in reserved:
            problems.add((*path, index), f"the port name {name} is reserved; choose another name")
        elif name in seen:
            problems.add((*path, index), "duplicate port name")
        seen.add(name)


def _check_data(document: Document, problems: Problems) -> None:
    names: set[str] = set()
    places: list[tuple[Path, str]] = []
    for index, source in enumerate(document.data.inputs):
        here: Path = ("data", "inputs", index)
        path = _deepest(here, "path", problems)
        root, pattern = split_pattern(source.path)
        if "**" in pattern:
            problems.add(
                path,
                "`**` is not supported; a pattern that matches a directory includes all files "
                "below it",
            )
        else:
            _check_uri(path, root, problems)
        places.append((path, root))
        name = source.name or default_input_name(root)
        if source.name is not None and not IDENTIFIER.fullmatch(name):
            problems.add(
                (*here, "name"), "an input name must start with a-z and consist of a-z, 0-9 and `_`"
            )
        elif name in names:
            problems.add(here, f"two inputs are named {name}; rename one", (here,))
        names.add(name)
    written: list[tuple[Path, str]] = []
    if document.data.outputs is not None:
        path = _deepest(("data", "outputs"), "path", problems)
        written.append((path, document.data.outputs.path))
    if document.checkpoint is not None:
        written.append((("checkpoint", "directory"), document.checkpoint.directory))
        _check_mirror(document.checkpoint, problems)
    for path, uri in written:
        _check_uri(path, uri, problems)
        if not urlsplit(uri).path.strip("/"):
            problems.add(path, "must be a directory below the root")
        for other_path, other in places:
            if _overlap(uri, other):
                message = (
                    f"overlaps {other}: inputs, outputs and checkpoints need separate directories"
                )
                problems.add(path, message, (path, other_path))
        places.append((path, uri))


_OF_THE_SDK = ("keep_every", "best", "every", "async", "memory", "spool")
"""Keys of `checkpoint` for code that saves by `yarnam.train.checkpoint`."""

MAX_NAME_BYTES = 255
"""The longest name on the file systems of Linux."""


def _check_mirror(given: Checkpoint, problems: Problems) -> None:
    here: Path = ("checkpoint", "mirror")
    if given.mirror is None:
        if problems.has(("checkpoint", "mirror_from")):
            problems.add(("checkpoint", "mirror_from"), "has no effect without `mirror`")
        return
    parts = given.mirror.rstrip("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        problems.add(here, "must be a path below the working directory, as in `ckpt/`")
    elif parts[0].startswith(".yarnam"):
        problems.add(here, "names that begin with `.yarnam` are yarnam's own")
    elif any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        problems.add(here, f"a name has more than {MAX_NAME_BYTES} bytes")
    for key in _OF_THE_SDK:
        if problems.has(("checkpoint", key)):
            text = "applies to code that saves by `yarnam.train.checkpoint`, not to `mirror`"
            problems.add(("checkpoint", key), text, (("checkpoint", key), here))


def _deepest(here: Path, key: str, problems: Problems) -> Path:
    """The path of a key, or of the whole entry where that is written as plain text."""
    return (*here, key) if problems.has((*here, key)) else here


def default_input_name(uri: str) -> str:
    """``hdfs:///data/Digits-v2.npz`` is ``digits_v2``."""
    last = uri.rstrip("/").rsplit("/", 1)[-1].split(".")[0].lower()
    name = re.sub(r"[^a-z0-9_]+", "_", last).strip("_")[:40]
    return name if IDENTIFIER.fullmatch(name) else "input"


def _check_uri(path: Path, uri: str, problems: Problems) -> None:
    try:
        parts = urlsplit(uri)
    except ValueError:
        problems.add(path, "is not a valid URI")
        return
    if any(char in uri for char in "*?["):
        problems.add(path, "must be a directory, not a pattern")
    elif not parts.scheme:
        if not uri.startswith("/"):
            problems.add(path, "must not be relative: write hdfs:///... or an absolute path")
        elif uri.startswith("//"):
            problems.add(path, "must not start with `//`: write hdfs://... or a single slash")
    elif parts.scheme == "file":
        problems.add(path, "file:// has other files on each node; use hdfs://")
    elif parts.scheme not in SCHEMES:
        hint = closest(parts.scheme, SCHEMES) or f"; use one of {', '.join(SCHEMES)}"
        problems.add(path, f"{parts.scheme}:// is not a supported file system{hint}")
    elif not parts.path.startswith("/"):
        problems.add(path, f"needs an absolute path, such as {parts.scheme}:///data/digits")


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


FIXED_ROLES = {
    "ps": "its tasks share the parameters between them",
    "chief": "a gang has one chief",
    "evaluator": "a gang has one evaluator",
}
"""Roles whose number of tasks cannot change between a checkpoint and the next start."""


def _check_elastic(document: Document, problems: Problems) -> None:
    ranges: dict[Path, TaskRange | GpuRange] = {}
    if isinstance(document.gpus, GpuRange):
        ranges["gpus",] = document.gpus
    for name, role in (document.roles or {}).items():
        if isinstance(role.tasks, TaskRange):
            path: Path = ("roles", name, "tasks")
            ranges[path] = role.tasks
            if name in FIXED_ROLES:
                problems.add(path, f"role {name} cannot be elastic: {FIXED_ROLES[name]}", (path,))
    for path, limits in ranges.items():
        _check_range(path, limits, problems)
    first, *others = [*ranges, ()]
    for path in others[:-1]:
        problems.add(path, f"only one role can be elastic, and {first[1]} is already", (path,))
    elastic: Path = ("elastic",)
    if not ranges and problems.has(elastic):
        problems.add(
            elastic,
            "the job has no elastic size: give a role a range such as tasks: {min: 2, max: 4}, or "
            "the job gpus: {min: 4, max: 16}",
            (elastic, ("gpus",), ("roles",)),
        )
    for path, limits in list(ranges.items())[:1]:
        _check_schedule(document, path, limits, problems)
        _check_choice(path, limits, problems)
    if ranges and not document.elastic.restart:
        _check_in_place(document, problems)


def _check_choice(path: Path, limits: TaskRange | GpuRange, problems: Problems) -> None:
    """Check a size that the submit chooses for good."""
    batch: Path = (*path, "batch")
    if limits.choose is None and "batch" in limits.model_fields_set:
        problems.add(batch, "has no effect without choose: advice", (batch,))
    elastic: Path = ("elastic",)
    if limits.choose is not None and problems.has(elastic):
        choose = (*path, "choose")
        text = "has no effect: with choose: advice the gang keeps one size; remove one of them"
        problems.add(elastic, text, (elastic, choose))


def _check_in_place(document: Document, problems: Problems) -> None:
    """Check a gang that changes its size while its processes continue."""
    restart: Path = ("elastic", "restart")
    framework = framework_named(document.framework)
    if not framework.forms_anew:
        able = [name for name in NAMES if framework_named(name).forms_anew]
        text = f"framework {document.framework} cannot go on when tasks come or go"
        text += f": use {' or '.join(able)}, or remove this key"
        problems.add(restart, text, (restart, ("framework",)))
    for name in list(document.roles or {})[1:]:
        text = "with elastic.restart: false the job has one role: only its tasks come and go"
        problems.add(("roles", name), text, (restart, ("roles",)))
    if document.data.outputs is not None:
        outputs: Path = ("data", "outputs")
        text = (
            "elastic.restart: false: the output of a lost task would be missing: remove one of them"
        )
        problems.add(outputs, text, (restart, outputs))
    for index, source in enumerate(document.data.inputs):
        if source.shard == "files":
            shard: Path = ("data", "inputs", index, "shard")
            text = "elastic.restart: false: nobody would read the share of a lost task: use none"
            problems.add(shard, text, (restart, shard))
    places: list[Path] = [("env", name) for name in document.env]
    for role_name, role in (document.roles or {}).items():
        places += [("roles", role_name, "env", name) for name in role.env]
    for path in places:
        if path[-1] in framework.in_place_variables and path[-1] not in framework.variables:
            text = f"framework {document.framework} sets it where elastic.restart is false"
            problems.add(path, f"{text}: remove it", (restart, ("framework",)))


def _check_schedule(
    document: Document, limits_path: Path, limits: TaskRange | GpuRange, problems: Problems
) -> None:
    """Each entry has one of the two times, all entries the same one, and the times rise; its size
    is one that the job may have."""
    schedule: Path = ("elastic", "schedule")
    entries = document.elastic.schedule
    if entries and document.checkpoint is None and document.elastic.restart:
        text = "needs a `checkpoint`: each change of size starts the processes again"
        problems.add(schedule, text, (schedule, ("checkpoint",)))
    # The tasks that `submit` makes of a range of GPUs: they divide both ends.
    each = gcd(limits.min, limits.max) if isinstance(limits, GpuRange) else 1
    unit = "GPUs" if isinstance(limits, GpuRange) else "tasks"
    for index, one in enumerate(entries):
        path: Path = (*schedule, index)
        if (one.epoch is None) == (one.step is None):
            problems.add(path, "needs either `epoch` or `step`")
        if not limits.min <= one.size <= limits.max or one.size % each:
            steps = f" in steps of {each}" if each > 1 else ""
            text = f"the job can have {limits.min} to {limits.max} {unit}{steps}, not {one.size}"
            problems.add((*path, "size"), text, ((*path, "size"), limits_path))
        before = entries[index - 1] if index else None
        if before is None:
            continue
        if (before.epoch is None) != (one.epoch is None):
            text = "one schedule counts either epochs or steps"
            problems.add(path, text, (path, (*schedule, index - 1)))
        elif (before.epoch or before.step or 0) >= (one.epoch or one.step or 0):
            text = "comes no later than the entry before it"
            problems.add(path, text, (path, (*schedule, index - 1)))


def _check_range(path: Path, limits: TaskRange | GpuRange, problems: Problems) -> None:
    low, high = (*path, "min"), (*path, "max")
    if limits.min > limits.max:
        problems.add(low, f"min {limits.min} is greater than max {limits.max}", (low, high))
    elif limits.min == limits.max:
        problems.add(
            path,
            f"min and max are equal: write {path[-1]}: {limits.max} for a fixed size",
            (low, high),
        )


GPU_MODEL = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9 ._()/+-]{1,100}")
"""A model name as the driver reports it, or words of one."""


def _check_placement(document: Document, problems: Problems) -> None:
    _check_spread(document, problems)
    _check_hosts(document, problems)
    _check_gpu_models(document, problems)
    _check_anti_affinity(document, problems)


def _check_spread(document: Document, problems: Problems) -> None:
    placement = document.placement
    spread: Path = ("placement", "strategy")
    if placement.strategy == "spread":
        if placement.locality.node == "required":
            node = ("placement", "locality", "node")
            problems.add(
                node,
                "conflicts with strategy spread: required asks for as few nodes as possible, "
                "spread for one node per task; remove one",
                (node, spread),
            )
        tasks = sum(role.most_tasks for role in (document.roles or {}).values())
        if placement.max_nodes is not None and tasks > placement.max_nodes:
            limit = ("placement", "max_nodes")
            problems.add(
                limit,
                f"strategy spread needs one node per task: at least {tasks},"
                f" not {placement.max_nodes}",
                (limit, spread, ("roles",)),
            )


def _check_hosts(document: Document, problems: Problems) -> None:
    placement = document.placement
    for key in ("exclude_nodes", "include_nodes"):
        for index, host in enumerate(getattr(placement, key)):
            if not HOST.fullmatch(host):
                path = ("placement", key, index)
                problems.add(path, "must be a host name as YARN shows it, without port")
    left = set(placement.include_nodes) - set(placement.exclude_nodes)
    if placement.include_nodes and not left:
        keys: tuple[Path, ...] = (("placement", "include_nodes"), ("placement", "exclude_nodes"))
        problems.add(keys[0], "all of these nodes are also in exclude_nodes", keys)


def _check_gpu_models(document: Document, problems: Problems) -> None:
    wanted: list[tuple[Path, str]] = [(("placement", "gpu_model"), document.placement.gpu_model)]
    for name, role in (document.roles or {}).items():
        path: Path = ("roles", name, "gpu_model")
        if role.gpu_model is not None:
            wanted.append((path, role.gpu_model))
            if not role.gpus:
                problems.add(path, f"role {name} has no GPUs", (path, ("roles", name, "gpus")))
    for path, model in wanted:
        if not GPU_MODEL.fullmatch(model):
            problems.add(path, "must be same, any, or words of a model name such as A100")


def _check_anti_affinity(document: Document, problems: Problems) -> None:
    names = list(document.roles or {})
    for index, item in enumerate(document.placement.anti_affinity):
        path: Path = ("placement", "anti_affinity", index)
        if document.roles is None:
            problems.add(
                path, "needs roles; to keep all tasks on separate nodes, write strategy: spread"
            )
            return
        if isinstance(item, list) and len(set(item)) < 2:
            alone = item[0] if item else "ps"
            problems.add(path, f"a list needs at least two roles; for one role write {alone}")
            continue
        for name in [item] if isinstance(item, str) else item:
            if name not in names:
                problems.add(
                    path, f"there is no role {name}{closest(name, names)}", (path, ("roles",))
                )
