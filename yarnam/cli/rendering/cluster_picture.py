"""Racks and nodes as lines of text: free and used GPUs, and where the job would run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from yarnam.cli.rendering.console import Line, Part, Styled
from yarnam.core.model.ids import NodeId, RackId
from yarnam.core.model.snapshot import ClusterSnapshot, Node

MOST_IN_FULL = 40
"""Nodes up to which each has its line; above, a node is one character."""
MOST_RACKS = 12
"""Rack lines of a larger cluster; the job's racks first."""
MOST_PER_LINE = 60
MOST_GPUS_DRAWN = 16
"""GPUs of a node that are drawn one by one."""

_FANCY = {"free": "·", "used": "█", "job": "◆", "part": "▒", "down": "x"}
_PLAIN = {"free": ".", "used": "#", "job": "@", "part": "+", "down": "x"}
_COLOURS = {"job": "green", "down": "red"}


def picture(
    snapshot: ClusterSnapshot, mine: Mapping[NodeId, int], am_note: str = ""
) -> Iterator[Line]:
    """``mine``: GPUs of the job by node."""
    marks = _marks()
    racks: dict[RackId, list[Node]] = {}
    for node in snapshot.nodes:
        racks.setdefault(node.rack, []).append(node)
    if len(snapshot.nodes) <= MOST_IN_FULL:
        yield from _in_full(racks, mine, marks)
        yield _legend(marks, ("job", "used", "free"), "GPU")
    else:
        yield from _in_short(racks, mine, marks)
        yield _legend(marks, ("job", "used", "part", "free", "down"), "node")
    if am_note:
        yield am_note


def _marks() -> dict[str, str]:
    try:
        "".join(_FANCY.values()).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return _PLAIN
    return _FANCY


def _paint(text: str, kind: str) -> Part:
    colour = _COLOURS.get(kind)
    return Styled(text, colour, is_bold=True) if colour and text else text


def _in_full(
    racks: Mapping[RackId, Sequence[Node]], mine: Mapping[NodeId, int], marks: Mapping[str, str]
) -> Iterator[Line]:
    nodes = [node for members in racks.values() for node in members]
    wide = max((len(node.node_id) for node in nodes), default=0)
    most = min(MOST_GPUS_DRAWN, max((node.total.gpus for node in nodes), default=0))
    for rack in sorted(racks):
        yield f"{rack}"
        for node in racks[rack]:
            bar = _bar(node, mine.get(node.node_id, 0), marks, most)
            words = _words(node, mine.get(node.node_id, 0))
            yield f"  {node.node_id.ljust(wide)}  ", *bar, f"  {words}"


def _bar(node: Node, job: int, marks: Mapping[str, str], most: int) -> tuple[Part, ...]:
    if not node.is_usable:
        drawn = min(most, max(1, node.total.gpus))
        return _paint(marks["down"] * drawn, "down"), " " * (most - drawn)
    total, used = node.total.gpus, min(node.used.gpus, node.total.gpus)
    scale = min(1.0, most / total) if total else 1.0
    taken, own = round(used * scale), round(job * scale)
    free = max(0, round(total * scale) - taken - own)
    pad = " " * max(0, most - taken - own - free)
    rest = marks["used"] * taken + marks["free"] * free + pad
    return _paint(marks["job"] * own, "job"), rest


def _words(node: Node, job: int) -> str:
    if not node.is_usable:
        return node.state.value
    if not node.total.gpus:
        return "no GPUs" + (", a task of this job" if job else "")
    text = f"{node.free.gpus} of {node.total.gpus} free"
    if job:
        text += f", {job} for this job"
    return f"{text}  {node.gpu_model}" if node.gpu_model else text


def _in_short(
    racks: Mapping[RackId, Sequence[Node]], mine: Mapping[NodeId, int], marks: Mapping[str, str]
) -> Iterator[Line]:
    """One line per rack, one character per node; the remaining racks are summed up."""

    def own(rack: RackId) -> int:
        return sum(mine.get(node.node_id, 0) for node in racks[rack])

    def free(rack: RackId) -> int:
        return sum(node.free.gpus for node in racks[rack] if node.is_usable)

    ordered = sorted(racks, key=lambda rack: (-own(rack), -free(rack), rack))
    shown, rest = ordered[:MOST_RACKS], ordered[MOST_RACKS:]
    wide = max(len(rack) for rack in shown)
    for rack in shown:
        nodes = racks[rack]
        cells = [_cell(node, mine.get(node.node_id, 0), marks) for node in nodes[:MOST_PER_LINE]]
        more = "…" if len(nodes) > MOST_PER_LINE else ""
        total = sum(node.total.gpus for node in nodes if node.is_usable)
        words = f"{free(rack)} of {total} free"
        if own(rack):
            words += f", {own(rack)} for this job"
        yield f"{rack.ljust(wide)}  ", *cells, f"{more}  {words}"
    if rest:
        total = sum(n.total.gpus for rack in rest for n in racks[rack] if n.is_usable)
        left = sum(free(rack) for rack in rest)
        nodes_left = sum(len(racks[rack]) for rack in rest)
        yield f"{len(rest)} more racks with {nodes_left} nodes: {left} of {total} GPUs free"


def _cell(node: Node, job: int, marks: Mapping[str, str]) -> Part:
    if not node.is_usable:
        return _paint(marks["down"], "down")
    if job:
        return _paint(marks["job"], "job")
    if node.free.gpus >= node.total.gpus:
        return marks["free"]
    return marks["part"] if node.free.gpus else marks["used"]


def _legend(marks: Mapping[str, str], kinds: Sequence[str], what: str) -> Line:
    words = {
        "job": "this job",
        "used": "in use" if what == "GPU" else "all GPUs in use",
        "part": "some free",
        "free": "free",
        "down": "not running",
    }
    parts: list[Part] = []
    for kind in kinds:
        parts += [", " if parts else f"({what}: ", _paint(marks[kind], kind), f" {words[kind]}"]
    return *parts, ")"
