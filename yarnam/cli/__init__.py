"""The command line. One file per command; a thin skin over ``yarnam.client``.

The entries of the ApplicationMaster and of the agent live in this package too, so this module
imports nothing but the standard library: click is loaded by ``main``.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Entry point of ``yarnam``; returns the exit code (docs/reference/exit-codes.md)."""
    from yarnam.cli.shell import end_cleanly_on_signals, run

    end_cleanly_on_signals()
    return run(sys.argv[1:])
