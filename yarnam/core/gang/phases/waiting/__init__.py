"""PENDING and BACKING_OFF: nothing is asked for or held."""
