"""The pictures of the documentation are what the product prints today."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.pictures.draw import FOLDER, drawn
from tests.pictures.page_parts import DOCS, FAMILIES, REFUSED, TITLES, pages
from tests.pictures.web_pages import DIGESTS, digests
from tests.unit.queues.test_waiting import CASES
from yarnam.core.model.outcomes import FailureClass
from yarnam.core.model.plans import Reason

ROOT = Path(__file__).parents[3]
PICTURES = drawn()
SHOWN = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
IMAGE = re.compile(r"!?\[(?P<alt>[^\]]*)\]\((?P<path>[^)]*pictures/[^)]+)\)")


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_not_older_than_what_it_shows(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PICTURES[name], (
        "draw them anew: python -m tests.pictures.draw"
    )


def test_a_picture_brings_nothing_from_elsewhere() -> None:
    for svg in PICTURES.values():
        assert set(re.findall(r"https?://[^\"' )]+", svg)) == {"http://www.w3.org/2000/svg"}


def test_every_picture_is_shown_with_a_text_in_its_place() -> None:
    shown = {}
    for page in SHOWN:
        for image in IMAGE.finditer(page.read_text()):
            path = (page.parent / image["path"]).resolve()
            assert path.is_file(), f"{page}: {image['path']}"
            is_link = not image[0].startswith("!")
            assert is_link or len(image["alt"]) > 20, f"{page}: what {path.name} shows, in words"
            shown[path.name] = page
    assert {path.name for path in FOLDER.iterdir()} - {DIGESTS.name} == set(shown)


def test_a_picture_of_a_page_is_not_older_than_the_page() -> None:
    assert json.loads(DIGESTS.read_text()) == digests(), "take them anew: see tests/pictures"


def test_the_products_words_in_a_page_are_todays() -> None:
    for name, page in pages().items():
        assert (DOCS / name).read_text(encoding="utf-8") == page, (
            "write them anew: python -m tests.pictures.draw"
        )


def test_no_cause_is_missing_from_the_pages_by_symptom() -> None:
    assert set(TITLES) == set(CASES)
    assert set(REFUSED) == set(Reason)
    shown = [name for names in FAMILIES.values() for name in names]
    assert sorted(shown) == sorted(failure.value for failure in FailureClass)
