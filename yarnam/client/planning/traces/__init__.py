"""Traces of jobs, in the formats in which others published theirs: files that anybody may have
written, read line by line within limits. Data of others is never part of yarnam."""
