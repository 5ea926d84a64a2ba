"""``python -m yarnam`` is ``yarnam``."""

from __future__ import annotations

import sys

from yarnam.cli import main

if __name__ == "__main__":
    sys.exit(main())
