"""Properties of Hadoop's configuration, and the XML that they are written as."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

Properties = dict[str, str]


def properties_xml(properties: Mapping[str, str]) -> str:
    rows = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in properties.items()
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<configuration>\n{rows}</configuration>\n'
