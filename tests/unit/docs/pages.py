"""What the pages show: their fenced blocks, with the place where each stands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
SHOWN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
SHOWN += sorted(
    path
    for folder in (
        "start",
        "tutorial",
        "how-to",
        "troubleshoot",
        "explanation",
        "evidence",
        "reference",
    )
    for path in (ROOT / "docs" / folder).glob("*.md")
)
BLOCK = re.compile(
    r"^(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<language>[a-z]*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    file: str
    """The file that the page tells the reader to write, if it does."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(*languages: str, pages: list[Path] | None = None) -> list[Block]:
    found = []
    for page in SHOWN if pages is None else pages:
        text = page.read_text()
        for match in BLOCK.finditer(text):
            if match["language"] in languages:
                line = text.count("\n", 0, match.start()) + 1
                name = match["file"] or ""
                found.append(Block(page, line, match["language"], match["text"], name))
    return found
