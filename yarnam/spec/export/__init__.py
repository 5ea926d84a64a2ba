"""The files generated from the spec: JSON Schema, reference page, starter file."""
