"""What the wishes for a placement must satisfy, beyond the kinds of their values."""

from __future__ import annotations

import re

from yarnam.spec.checks import HOST, Reporter
from yarnam.spec.document import Document
from yarnam.spec.problems import closest
from yarnam.spec.tree import Path, Tree

GPU_MODEL = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9 ._()/+-]{1,100}")
"""A name as drivers tell it, or words of it."""


def check_placement(document: Document, tree: Tree) -> None:
    """Add to the tree's problems what makes no sense of the document's wishes."""
    say = Reporter(tree)
    _check_spread(document, say)
    _check_hosts(document, say)
    _check_nodes_twice(document, say)
    _check_gpu_models(document, say)
    _check_anti_affinity(document, say)


def _check_spread(document: Document, say: Reporter) -> None:
    wish = document.placement
    spread: Path = ("placement", "strategy")
    if wish.strategy == "spread":
        if wish.locality.node == "required":
            node = ("placement", "locality", "node")
            say.say(
                node,
                "required means as few nodes as possible, strategy spread a node for every task:"
                " remove one",
                (node, spread),
            )
        tasks = sum(role.most_tasks for role in (document.roles or {}).values())
        if wish.max_nodes is not None and tasks > wish.max_nodes:
            limit = ("placement", "max_nodes")
            say.say(
                limit,
                f"{tasks} tasks spread over nodes of their own need max_nodes: {tasks}",
                (limit, spread, ("roles",)),
            )


def _check_hosts(document: Document, say: Reporter) -> None:
    wish = document.placement
    for key, hosts in (
        ("exclude_nodes", wish.exclude_nodes),
        ("include_nodes", wish.include_nodes),
    ):
        for index, host in enumerate(hosts):
            if not HOST.fullmatch(host):
                path = ("placement", key, index)
                say.say(path, "must be a host name as YARN shows it, without a port")


def _check_nodes_twice(document: Document, say: Reporter) -> None:
    wish = document.placement
    left = set(wish.include_nodes) - set(wish.exclude_nodes)
    if wish.include_nodes and not left:
        keys: tuple[Path, ...] = (("placement", "include_nodes"), ("placement", "exclude_nodes"))
        say.say(keys[0], "every one of these nodes is in exclude_nodes too", keys)


def _check_gpu_models(document: Document, say: Reporter) -> None:
    """A model is words; a role that has no GPUs has no model."""
    wishes: list[tuple[Path, str]] = [(("placement", "gpu_model"), document.placement.gpu_model)]
    for name, role in (document.roles or {}).items():
        path: Path = ("roles", name, "gpu_model")
        if role.gpu_model is not None:
            wishes.append((path, role.gpu_model))
            if not role.gpus:
                say.say(path, f"role {name} has no GPUs", (path, ("roles", name, "gpus")))
    for path, wish in wishes:
        if not GPU_MODEL.fullmatch(wish):
            say.say(path, "must be same, any, or words of a model's name, such as A100")


def _check_anti_affinity(document: Document, say: Reporter) -> None:
    names = list(document.roles or {})
    for index, item in enumerate(document.placement.anti_affinity):
        path: Path = ("placement", "anti_affinity", index)
        if document.roles is None:
            say.say(path, "a job without roles has nothing to keep apart; write strategy: spread")
            return
        if isinstance(item, list) and len(set(item)) < 2:
            alone = item[0] if item else "ps"
            say.say(path, f"a list keeps roles apart from each other; for one role write {alone}")
            continue
        for name in [item] if isinstance(item, str) else item:
            if name not in names:
                say.say(path, f"there is no role {name}{closest(name, names)}", (path, ("roles",)))
