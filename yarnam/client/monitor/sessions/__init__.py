"""Sessions in the tasks of a running job."""
