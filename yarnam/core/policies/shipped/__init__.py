"""The policies that there are, one module each."""
