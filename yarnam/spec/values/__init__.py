"""The types of single values: units, scalars, names and patterns."""
