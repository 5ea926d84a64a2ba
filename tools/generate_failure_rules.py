"""Writes what is made of yarnam/spec/failure_rules.yaml: the module that containers load, and
docs/reference/failure-rules.md.

``python tools/generate_failure_rules.py`` writes; with ``--check`` it only compares, and fails when
a file is behind.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path

from yarnam.core.model.outcomes import FailureClass, FailureRule, RetryAction
from yarnam.spec.failure_rules import class_defaults, shipped_rules

CODE = Path(__file__).resolve().parents[1] / "yarnam/core/failures/shipped_rules.py"
PAGE = Path(__file__).resolve().parents[1] / "docs/reference/failure-rules.md"

HEAD = """# Failure rules

<!-- Written by tools/generate_failure_rules.py from failure_rules.yaml: do not edit. -->

By these rules yarnam says why a process failed, and whether the gang is started again. How it gets
from processes to a gang's first cause: [](../explanation/first-causes.md). `retry.rules` in the
[spec](spec.md) puts rules of the job before them; `yarnam explain` shows which rule matched.

Administrators put rules for all jobs into `failure-rules.yaml` beside `yarn-site.xml`, or into
the file that `YARNAM_FAILURE_RULES` names where jobs are submitted. They come between the job's and
those below, and travel with the job:

```yaml
rules:                      # each as in retry.rules
  - id: licences
    class: communication-error
    patterns: ["no licence is free"]
    action: retry-free
```

## Classes

The first 21 are the reasons of the failure table of Microsoft's Philly cluster (Jeon et al., ATC
2019, table 7), by their names of today.

| class | blame | action | meaning |
|---|---|---|---|
"""

ACTIONS = """
## Actions

| action | meaning |
|---|---|
"""

RULES = """
## Rules

Rules with an exit status come first, then the others by the order of this list, weak ones last. A
pattern is text that a line of the output contains, in capitals or not; `*` stands for any text
within the line, `^` for its start. *Raised in*: one of the last eight frames of the traceback is of
such a file.

| rule | class | role | action | matches |
|---|---|---|---|---|
"""


CODE_HEAD = '''"""The shipped rules, for containers, which load no YAML parser.

Written by tools/generate_failure_rules.py from failure_rules.yaml: do not edit.
"""

# fmt: off
from __future__ import annotations

from yarnam.core.model.outcomes import (
    FailureClass,
    FailureRole,
    FailureRule,
    RetryAction,
    Source,
)
from yarnam.errors import Blame

SHIPPED_RULES = (
'''


def code() -> str:
    """The module that the containers load; one rule a line."""
    return CODE_HEAD + "".join(f"    {_call(rule)},\n" for rule in shipped_rules()) + ")\n"


def _call(rule: FailureRule) -> str:
    """What makes the rule; defaults are left out."""
    given = []
    for each in fields(rule):
        value = getattr(rule, each.name)
        if each.default is MISSING or value != each.default:
            is_word = isinstance(value, Enum)
            text = f"{type(value).__name__}.{value.name}" if is_word else _quoted(value)
            given.append(f"{each.name}={text}")
    return f"FailureRule({', '.join(given)})"


def _quoted(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_quoted, value))}{',' if len(value) == 1 else ''})"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def page() -> str:
    """The reference page."""
    return HEAD + "".join(_classes()) + ACTIONS + "".join(_actions()) + RULES + "".join(_rules())


def _classes() -> Iterator[str]:
    for failure in FailureClass:
        common = class_defaults().get(failure)
        if common is None:
            yield f"| `{failure.value}` | user | `as-allowed` | No rule knows the failure. |\n"
        else:
            yield f"| `{failure.value}` | {common.blame} | `{common.action}` | "
            yield f"{common.explanation} {common.hint} |\n"


def _actions() -> Iterator[str]:
    lines = Path(inspect.getfile(RetryAction)).read_text(encoding="utf-8")
    body = lines.partition("class RetryAction")[2].partition("@dataclass")[0]
    for action in RetryAction:
        text = body.partition(f'{action.name} = "{action.value}"')[2].split('"""')[1]
        yield f"| `{action.value}` | {' '.join(text.replace('``', '`').split())} |\n"


def _rules() -> Iterator[str]:
    for rule in shipped_rules():
        yield f"| `{rule.id}` | `{rule.failure.value}` | {rule.role.value}"
        yield f"{' (weak)' if rule.is_weak else ''} | `{rule.action.value}` | {_evidence(rule)} |\n"


def _evidence(rule: FailureRule) -> str:
    parts = []
    if rule.exit_codes:
        parts.append("exit code " + ", ".join(map(str, rule.exit_codes)))
    if rule.signals:
        parts.append("signal " + ", ".join(map(str, rule.signals)))
    if rule.patterns:
        whose = "YARN says " if rule.source.value == "yarn" else ""
        shown = (pattern.replace("|", "\\|") for pattern in rule.patterns)
        quoted = (f"`` {text} ``" if "`" in text else f"`{text}`" for text in shown)
        parts.append(whose + ", ".join(quoted))
    if rule.raised_in:
        parts.append("raised in " + ", ".join(f"`{place}`" for place in rule.raised_in))
    return "; ".join(parts)


def main() -> int:
    texts = {CODE: code(), PAGE: page()}
    stale = [p for p, text in texts.items() if not p.exists() or p.read_text("utf-8") != text]
    if "--check" in sys.argv[1:]:
        if stale:
            names = ", ".join(path.name for path in stale)
            print(f"stale: {names}; run python tools/generate_failure_rules.py")
        return 1 if stale else 0
    for path in stale:
        path.write_text(texts[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
