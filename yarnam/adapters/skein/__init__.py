"""Skein: its driver, its ApplicationMaster, containers."""
