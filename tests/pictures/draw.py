"""Draws docs/pictures anew, and the words of the product in pages:
``python -m tests.pictures.draw``. A test fails while one is older than what it shows."""

from __future__ import annotations

import os
import time

from tests.pictures.page_parts import DOCS, pages

FOLDER = DOCS / "pictures"


def drawn() -> dict[str, str]:
    """All pictures by the names of their files. Times in them are UTC, whatever the zone."""
    zone = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        from tests.pictures.diagrams import diagrams
        from tests.pictures.scenes import terminal_pictures
        from tests.pictures.timeline import timeline_picture
        from tests.pictures.what_if import what_if_picture

        return {
            **terminal_pictures(),
            **diagrams(),
            "all-or-none.svg": timeline_picture(),
            "what-if.svg": what_if_picture(),
        }
    finally:
        if zone is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = zone
        time.tzset()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, svg in drawn().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
    for name, page in pages().items():
        (DOCS / name).write_text(page, encoding="utf-8")
