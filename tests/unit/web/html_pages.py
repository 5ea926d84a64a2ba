"""Reads pages as a browser does, and text that tries to become one."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}

HOSTILE = (
    "</script></style><script>alert(1)</script><img src=x onerror=alert(2)>\"'{{7*7}}\u202e\x1b[31m"
)


class Page(HTMLParser):
    """The elements and the text of a page. Fails on elements that are not closed in order."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page.decode())
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] not in (["style"], ["script"]):
            self.text += data

    @property
    def words(self) -> str:
        return " ".join(self.text.split())
