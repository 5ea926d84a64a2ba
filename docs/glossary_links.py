"""A Sphinx extension: the first use of a glossary word on a page leads to the glossary."""

from __future__ import annotations

import re
from functools import cache

from docutils import nodes
from sphinx.application import Sphinx

GLOSSARY = "reference/glossary"
WITHOUT_LINKS = ("adr/", "reference/api/", "reference/cli", "reference/glossary")
UNUSUAL = {
    *("AM", "ApplicationMaster", "agent", "backlog", "barrier", "ETTR", "gang", "interceptor"),
    *("journal", "keeper", "ladder", "ledger", "manifest", "rendezvous", "rung", "shard"),
    *("spool", "straggler", "strike", "supplement", "suspect", "ticket", "verdict"),
}
"""Words of one part that mean the same wherever they stand. Phrases always do."""

NOT_PROSE = (nodes.literal, nodes.reference, nodes.title, nodes.literal_block, nodes.caption)


def anchor_of(row: str) -> str:
    return nodes.make_id(f"word-{row}")


def forms(row: str) -> list[str]:
    """How the word of one row is written in a text: ``blacklist, node`` as "node blacklist"."""
    parts = row.split(", ")
    if len(parts) == 2 and parts[1].islower() and parts[0].islower():
        parts = [f"{parts[1]} {parts[0]}"]
    return [part for part in parts if re.search(r"[ -]", part) or part in UNUSUAL]


def with_anchors(app: Sphinx, doctree: nodes.document) -> None:
    """Gives each row of the glossary an address."""
    if app.env.docname != GLOSSARY:
        return
    table = next(doctree.findall(nodes.table))
    for row in list(table.findall(nodes.row))[1:]:
        word = row.children[0].astext()
        row["ids"].append(anchor_of(word))


@cache
def words_of(app: Sphinx) -> tuple[dict[str, str], re.Pattern[str]]:
    """Each form of a word with the address of its row, and what finds one in a text."""
    table = next(app.env.get_doctree(GLOSSARY).findall(nodes.table))
    rows = [row.children[0].astext() for row in list(table.findall(nodes.row))[1:]]
    words = {form: anchor_of(row) for row in rows for form in forms(row)}
    # Longest first: "node blacklist" before "node".
    either = "|".join(re.escape(form) for form in sorted(words, key=len, reverse=True))
    return words, re.compile(rf"(?<![\w-])({either})s?(?![\w-])")


def with_links(app: Sphinx, doctree: nodes.document, page: str) -> None:
    if page.startswith(WITHOUT_LINKS):
        return
    words, pattern = words_of(app)
    seen: set[str] = set()
    for text in list(doctree.findall(nodes.Text)):
        around = parents(text)
        is_prose = any(isinstance(one, nodes.paragraph) for one in around)
        if not is_prose or any(isinstance(one, NOT_PROSE) for one in around):
            continue
        new: list[nodes.Node] = []
        end = 0
        for found in pattern.finditer(str(text)):
            anchor = words[found[1]]
            if anchor in seen:
                continue
            seen.add(anchor)
            uri = f"{app.builder.get_relative_uri(page, GLOSSARY)}#{anchor}"
            new += [
                nodes.Text(str(text)[end : found.start()]),
                nodes.reference("", found[0], refuri=uri, internal=True, classes=["word"]),
            ]
            end = found.end()
        if new:
            text.parent.replace(text, [*new, nodes.Text(str(text)[end:])])


def parents(node: nodes.Node) -> list[nodes.Node]:
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", with_anchors)
    app.connect("doctree-resolved", with_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
