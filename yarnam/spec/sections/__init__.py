"""The spec's sections, as pydantic models."""
