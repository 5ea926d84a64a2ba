"""The functional core: decisions as pure functions of values."""
