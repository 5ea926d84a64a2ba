"""Traces of jobs, in published formats: untrusted files, read line by line within limits. Data of
others is never part of yarnam."""
