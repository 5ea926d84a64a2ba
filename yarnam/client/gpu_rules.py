"""Reads the administrators' table of GPU models by node: ``gpu-models.yaml``.

::

    nodes:                        # host names, with * and ? as in file names
      gpu-a*: NVIDIA A100-SXM4-80GB
    labels:                       # YARN node labels
      volta: Tesla V100-SXM2-32GB
    racks:
      /dc1/rack7: NVIDIA H100 80GB HBM3

It is beside yarn-site.xml in the Hadoop configuration, or at the path in YARNAM_GPU_MODELS.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yarnam._light_imports import on_first_use
from yarnam.core.model.gpu_names import NO_RULES, GpuModelRules
from yarnam.errors import BadConfig, BadSpec

with on_first_use():
    from yarnam.spec import yaml_tree

FILE_NAME = "gpu-models.yaml"
VARIABLE = "YARNAM_GPU_MODELS"
_SECTIONS = ("nodes", "labels", "racks")


def read_rules(conf_dir: Path, environ: Mapping[str, str]) -> GpuModelRules:
    """The rules of this cluster; none if there is no file. Raises BadConfig."""
    named = environ.get(VARIABLE)
    path = Path(named).expanduser() if named else conf_dir / FILE_NAME
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if not named:
            return NO_RULES
        raise BadConfig(f"{VARIABLE} is {path}, which does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"cannot read {path}: {error}") from error
    return rules_from(text, str(path))


def rules_from(text: str, where: str) -> GpuModelRules:
    """Raises BadConfig, naming ``where`` and what is wrong."""
    try:
        document = yaml_tree.plain_document(text, where)
    except BadSpec as error:
        raise BadConfig(error.message) from error
    if document is None:
        return NO_RULES
    hint = "See yarnam docs placement."
    if not isinstance(document, dict) or set(document) - set(_SECTIONS):
        raise BadConfig(f"{where}: must be a mapping of {', '.join(_SECTIONS)}", hint=hint)
    return GpuModelRules(**{name: _pairs(document.get(name), name, where) for name in _SECTIONS})


def _pairs(section: Any, name: str, where: str) -> tuple[tuple[str, str], ...]:
    if section is None:
        return ()
    hint = "For example: gpu-a*: NVIDIA A100-SXM4-80GB"
    if not isinstance(section, dict):
        raise BadConfig(f"{where}: {name} must map names to models", hint=hint)
    for pattern, model in section.items():
        if not isinstance(pattern, str) or not isinstance(model, str) or not model.strip():
            raise BadConfig(f"{where}: {name}: {pattern}: must be a model name", hint=hint)
    return tuple((pattern, model.strip()) for pattern, model in section.items())
