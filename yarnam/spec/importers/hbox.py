"""hbox (once XLearning): the arguments of ``hbox-submit``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from yarnam.errors import BadSpec
from yarnam.spec.importers.conversion import (
    Conversion,
    Source,
    assignments,
    job_name,
    memory,
    queue_name,
    words,
)

FRAMEWORKS = {"tensorflow": "tensorflow", "distpytorch": "pytorch", "pytorch": "pytorch"}
ROLES = {"worker": "worker", "ps": "ps", "chiefworker": "chief", "evaluatorworker": "evaluator"}
_FLAGS = {"tf-evaluator", "boardEnable", "board-enable"}
_REPEATED = {"input", "output", "files", "cacheFile", "cacheArchive", "conf"}
_DROPPED = {
    r"(driver|am)-.*": "the ApplicationMaster asks for what it needs; see `am` of the spec",
    r"board.*": "run `yarnam tensorboard JOB` beside the job",
    r"(input|output)-(strategy|index)": "`data.inputs` and `data.outputs` say how",
    r"inputformat-.*|outputformat-.*": "`data.inputs` and `data.outputs` say how",
    r"jars|libjars": "processes need no Java",
    r"conf": "properties of hbox itself",
    r"tf-evaluator": "an evaluator is a role: give --evaluatorworker-memory",
    r"user-path|hbox-version|files-local": "of hbox's client",
}
"""Patterns of the arguments that are dropped, and why."""


def convert(arguments: Sequence[str]) -> Conversion:
    """The spec of what these arguments would submit. Raises BadSpec."""
    source = Source("hbox-submit", _parsed(arguments))
    framework = str(source.take("app-type", "")).lower()
    command = source.take("launch-cmd") or source.take("hbox-cmd")
    if not command:
        raise BadSpec("hbox-submit has no --launch-cmd", hint="It says what each process runs.")
    roles = {}
    for name, ours in ROLES.items():
        if any(key.startswith(f"{name}-") for key in source.values):
            roles[ours] = _role(source, name)
    for path, name in map(_pair, source.values.get("input", [])):
        source.note(f"input {path}", f"it lies in $YARNAM_LOCAL_INPUTS/{name}, not in ./{name}")
    outputs = [_pair(one) for one in source.take("output") or []]
    data: dict[str, Any] = {"inputs": [_input(one) for one in source.take("input") or []]}
    if outputs:
        path, name = outputs[0]
        data["outputs"] = {"path": path}
        source.note(f"output {path}", f"write it to $YARNAM_OUTPUT, not to ./{name}")
    for path, _ in outputs[1:]:
        source.values[f"output {path}"] = path
        source.drop(f"output {path}", "a job has one output, with a directory for each task")
    spec = {
        "version": 1,
        "name": job_name(str(source.take("app-name", "hbox"))),
        "queue": queue_name(str(source.take("queue", "default"))),
        "framework": FRAMEWORKS.get(framework, "command"),
        "command": command,
        "env": assignments("--user-env", str(source.take("user-env", ""))),
        "files": _files(source),
        "roles": roles or {"worker": {"tasks": 1}},
        "data": {key: value for key, value in data.items() if value},
        "gang": _priority(source),
    }
    for pattern, why in _DROPPED.items():
        source.drop_all(pattern, why)
    return source.finish(spec)


def _parsed(arguments: Sequence[str]) -> dict[str, Any]:
    """Each argument by its name without dashes; those that may be repeated as lists."""
    found: dict[str, Any] = {}
    left = list(arguments)
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            raise BadSpec(f"hbox-submit: {word!r} is no option", hint="Quote the launch command.")
        name, sign, value = word[2:].partition("=")
        if name in _FLAGS:
            found[name] = value or (
                left.pop(0) if left and left[0] in ("true", "false") else "true"
            )
            continue
        if not sign:
            if not left:
                raise BadSpec(f"hbox-submit: --{name} has no value")
            value = left.pop(0)
        if name in _REPEATED:
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
    return found


def _role(source: Source, name: str) -> dict[str, Any]:
    return {
        "tasks": source.whole(f"{name}-num", 1),
        "gpus": source.whole(f"{name}-gpus", 0),
        "vcores": source.whole(f"{name}-cores", 1),
        "memory": memory(source.take(f"{name}-memory", "2g")),
        "processes": "per-task",
    }


def _pair(text: str) -> tuple[str, str]:
    """``hdfs path#local name``."""
    path, _, name = text.partition("#")
    return path, name


def _input(text: str) -> dict[str, str]:
    path, name = _pair(text)
    found = {"path": path, "mode": "localize"}
    if name:
        found["name"] = name.lower().replace("-", "_")
    return found


def _files(source: Source) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for key, is_archive in (("files", False), ("cacheFile", False), ("cacheArchive", True)):
        for one in source.take(key) or []:
            for path in filter(None, one.split(",")):
                place, name = _pair(path)
                file: dict[str, Any] = {"source": place}
                if name:
                    file["name"] = name
                if is_archive:
                    file["archive"] = True
                found.append(file)
    return found


def _priority(source: Source) -> dict[str, int]:
    """YARN's priorities are not yarnam's: the order among a queue's waiting jobs is."""
    words = {"VERY_LOW": -10, "LOW": -5, "NORMAL": 0, "DEFAULT": 0, "HIGH": 5, "VERY_HIGH": 10}
    word = str(source.take("priority", "NORMAL")).upper()
    if word not in words:
        raise BadSpec(f"hbox-submit: --priority {word} is none of {', '.join(words)}")
    return {"priority": words[word]} if words[word] else {}


def split(script: str, what: str) -> list[str]:
    """The arguments of the call of ``hbox-submit`` in a shell script. Raises BadSpec."""
    lines = [line for line in script.splitlines() if not line.lstrip().startswith("#")]
    commands = "\n".join(lines).replace("\\\n", " ").splitlines()
    calls = [line for line in commands if re.search(r"\b(hbox|xl)-submit\b", line)]
    if len(calls) != 1:
        raise BadSpec(f"{what} calls hbox-submit {len(calls)} times", hint="Once is what it takes.")
    return words(what, re.split(r"\b(?:hbox|xl)-submit\b\S*", calls[0], maxsplit=1)[1])
