"""What is true of every framework, whatever it is."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.unit.frameworks.contract import placed, without_generic
from yarnam.core.frameworks import supported
from yarnam.core.frameworks.registry import NAMES, framework_named
from yarnam.errors import BadSpec, WireMismatch
from yarnam.spec import json_schema, parse_spec_dict, template
from yarnam.wire.rendezvous import environments

PAGES = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("name", NAMES)
def test_the_variables_that_a_framework_sets_are_refused_in_a_spec(name: str) -> None:
    """Its list against what its starter's gang really gets."""
    plain = yaml.safe_load(template(name))
    made = parse_spec_dict(plain, check_paths=False)
    framework = framework_named(name)
    given = [environment for task in environments(made, placed(made), 1) for environment in task]
    found = [without_generic(environment) for environment in given]
    always = set(framework.variables)
    seen = {variable for env in found for variable in env}
    assert always <= seen
    for variable in always:
        with pytest.raises(BadSpec, match=f"framework {name} sets this variable"):
            parse_spec_dict({**plain, "env": {variable: "x"}}, check_paths=False)
    if not (own := sorted(seen - always)):
        return
    # The rest are defaults: the job's own value is left to it.
    made = parse_spec_dict({**plain, "env": dict.fromkeys(own, "x")}, check_paths=False)
    for task in environments(made, placed(made), 1):
        assert not [variable for env in task for variable in own if variable in env]


def test_a_module_is_all_that_a_framework_needs() -> None:
    folder = Path(supported.__path__[0])
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == set(NAMES)
    assert json_schema()["properties"]["framework"]["enum"] == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_framework_has_its_section_in_the_guide_and_the_reference(name: str) -> None:
    title = framework_named(name).title
    pages = ["how-to/frameworks.md", "reference/rendezvous.md"]
    for page in pages if framework_named(name).variables else pages[:1]:
        assert f"\n## {title}\n" in (PAGES / page).read_text(), page


def test_a_name_of_another_version_is_refused() -> None:
    with pytest.raises(WireMismatch, match="knows no framework 'os'"):
        framework_named("os")
