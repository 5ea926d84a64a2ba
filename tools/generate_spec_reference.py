"""Regenerate docs/reference/spec.md, docs/reference/spec.schema.json and yarnam/spec/typed_dicts.py
from the code.

Run after a change of yarnam/spec: ``python tools/generate_spec_reference.py``. ``--check`` exits 1
when the checked-in files are not what the code says.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from yarnam.spec.export.reference_page import reference_page, schema_file
from yarnam.spec.export.typed_module import typed_dicts_module

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "docs/reference"


def files() -> dict[Path, str]:
    return {
        HERE / "spec.md": reference_page(),
        HERE / "spec.schema.json": schema_file(),
        ROOT / "yarnam/spec/typed_dicts.py": typed_dicts_module(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = [
        path
        for path, text in files().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if check and stale:
        names = ", ".join(path.name for path in stale)
        print(f"stale: {names}; run python tools/generate_spec_reference.py")
        return 1
    for path in () if check else stale:
        path.write_text(files()[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
