"""The job spec: YAML to ``yarnam.core.model.job_spec.JobSpec``, strictly, with every error at its
line.

A text goes through ``tree`` (YAML to values and their places), ``document`` (each key's kind, as
pydantic models), ``checks`` (keys against each other) and ``build`` (defaults, paths). All problems
of a file are collected and raised as one ``BadSpec``. The JSON Schema, the reference page and the
starter come from the same models.
"""

from __future__ import annotations

from yarnam.spec.export.json_schema import json_schema
from yarnam.spec.export.starter import template
from yarnam.spec.loader import parse_spec_dict, parse_spec_file, parse_spec_text

__all__ = ["json_schema", "parse_spec_dict", "parse_spec_file", "parse_spec_text", "template"]
