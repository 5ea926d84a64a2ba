"""The frameworks that there are: a module of ``supported`` is one."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from yarnam.core.frameworks import supported
from yarnam.core.frameworks.framework import Framework
from yarnam.errors import WireMismatch

NAMES = tuple(sorted(module.name for module in iter_modules(supported.__path__)))
"""The values of the spec's key ``framework``, in alphabetical order."""

FORMER = {
    "mxnet": "MXNet is retired. Use framework: command, and set the DMLC_ variables in the command "
    "(roles scheduler, server and worker); or move the program to pytorch or horovod",
}
"""Values of earlier versions, and what to use instead."""


def framework_named(name: str) -> Framework:
    """Loads that framework's module alone. Raises WireMismatch for a name that there is not."""
    if name not in NAMES:
        raise WireMismatch(
            f"this version of yarnam knows no framework {name!a}",
            hint="Client and runtime are of two versions of yarnam: submit with the same one.",
        )
    found: Framework = import_module(f"{supported.__name__}.{name}").FRAMEWORK
    return found
