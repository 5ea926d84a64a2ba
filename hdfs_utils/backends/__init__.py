"""The file systems: local, native, WebHDFS, libhdfs."""
