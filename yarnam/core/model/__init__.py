"""Values: the words of the domain as frozen dataclasses. Nothing here does I/O or decides."""
