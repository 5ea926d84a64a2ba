"""The input formats: each module defines ``FORMATS``, a tuple of ``InputFormat``."""
