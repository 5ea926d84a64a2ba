"""Gangs of small real processes that fail in known ways: what first causes are judged on."""
