"""Any program: it reads the generic variables, or none."""

from __future__ import annotations

from yarnam.core.frameworks.framework import Framework, Starter

FRAMEWORK = Framework(
    title="Plain command",
    starter=Starter(
        comment="""\
# Plain processes with the generic variables (YARNAM_RANK, YARNAM_WORLD_SIZE, ...).
""",
        command="[/bin/sh, -c, 'echo \"rank $YARNAM_RANK of $YARNAM_WORLD_SIZE on $(hostname)\"']",
    ),
)
