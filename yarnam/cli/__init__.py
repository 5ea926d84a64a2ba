"""The command line. One file per command; a thin skin over ``yarnam.client``.

The entries of the ApplicationMaster and of the agent live in this package too, so this module
imports nothing but the standard library: click is loaded by ``main``.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Entry point of ``yarnam``; returns the exit code (docs/reference/exit-codes.md)."""
    from yarnam.cli.log_format import make_last_resort_printable
    from yarnam.cli.shell import run
    from yarnam.cli.signals import end_cleanly_on_signals

    end_cleanly_on_signals()
    make_last_resort_printable()
    return run(sys.argv[1:])
