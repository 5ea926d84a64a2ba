"""Terminal pictures: what a command prints, drawn by rich."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console, RenderableType

from yarnam.cli.rendering.console import Line, live_text

WIDTH = 104
"""Columns: the widest at which text of a page is still readable beside its prose."""

_FORMAT = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Rich's own format without its fonts, which a reader's browser would fetch from elsewhere."""


def terminal(
    name: str, command: str, *parts: Iterable[Line] | RenderableType, width: int = WIDTH
) -> str:
    """An SVG of a terminal in which ``command`` has printed ``parts``: lines, or a live view."""
    console = Console(
        file=io.StringIO(), record=True, width=width, force_terminal=True, color_system="truecolor",
        markup=False, emoji=False, highlight=False,
    )  # fmt: skip
    console.print(live_text(f"$ {command}", "bold"))
    for part in parts:
        if isinstance(part, Iterable) and not isinstance(part, str):
            for line in part:
                console.print(live_text(line), soft_wrap=False)
        else:
            console.print(part)
    svg = console.export_svg(title=name, code_format=_FORMAT, unique_id=f"yarnam-{name}")
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"
