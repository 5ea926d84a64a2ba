"""Which formats are checked in a child process, and by which library."""

from __future__ import annotations

LIBRARIES = {
    "parquet": "pyarrow",
    "orc": "pyarrow",
    "arrow": "pyarrow",
    "arrow-stream": "pyarrow",
    "hdf5": "h5py",
}
