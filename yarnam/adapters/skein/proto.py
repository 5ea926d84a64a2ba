"""Skein's protobuf messages and stubs without the rest of Skein.

``import skein`` costs an AM some 13 MB and a fifth of a second (YAML, distutils, the spec model,
the driver); of all that it needs the messages only. They are loaded from the installed package
under a name of our own, so that ``skein/__init__.py`` does not run.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from yarnam.errors import InternalError

_PACKAGE = "_yarnam_skein_proto"


def _load() -> tuple[Any, Any, Any]:
    spec = importlib.util.find_spec("skein")
    if spec is None or not spec.submodule_search_locations:
        raise InternalError("the package 'skein' is missing from yarnam's runtime")
    package = ModuleType(_PACKAGE)
    package.__path__ = [str(Path(spec.submodule_search_locations[0]) / "proto")]
    sys.modules.setdefault(_PACKAGE, package)
    messages = importlib.import_module(f"{_PACKAGE}.skein_pb2")
    stubs = importlib.import_module(f"{_PACKAGE}.skein_pb2_grpc")
    return messages, stubs.AppMasterStub, stubs.DriverStub


messages, AppMasterStub, DriverStub = _load()
