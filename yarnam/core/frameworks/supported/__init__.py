"""One module for each value of the spec's key ``framework``; each has its ``FRAMEWORK``."""
