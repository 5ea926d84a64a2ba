"""Python functions as jobs (``Client.executor``), and arrays (``Client.submit_array``)."""
