"""Fitting tasks onto nodes."""
