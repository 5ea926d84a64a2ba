"""The facts about a Python that are needed to copy it. Also a program for a Python that has no
yarnam: ``python -I interpreter_facts.py`` prints the facts as JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
import sysconfig


def interpreter_facts() -> dict[str, str]:
    """Facts of the running Python: ``executable`` (the real file), ``version`` (as in 3.11),
    ``build`` (the difference between two builds of a version), ``machine``, ``stdlib`` and
    ``dynload`` (directories of the standard library), ``prefix`` (a virtual environment's own),
    ``site_packages``."""
    base = {"base": sys.base_prefix, "installed_base": sys.base_prefix, "platbase": sys.base_prefix}
    stdlib = sysconfig.get_path("stdlib", vars=base)
    executable = getattr(sys, "_base_executable", "") or sys.executable
    return {
        "executable": os.path.realpath(executable),
        "version": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "build": f"{sys.version} {sysconfig.get_platform()}",
        "machine": platform.machine(),
        "stdlib": stdlib,
        "dynload": sysconfig.get_config_var("DESTSHARED") or os.path.join(stdlib, "lib-dynload"),  # noqa: PTH118 - runs alone, in any Python
        "prefix": sys.prefix,
        "site_packages": sysconfig.get_path("purelib"),
    }


if __name__ == "__main__":
    os.write(1, json.dumps(interpreter_facts()).encode())
