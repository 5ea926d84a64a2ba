"""PENDING, BACKING_OFF and SUSPENDED: nothing is asked for or held."""
