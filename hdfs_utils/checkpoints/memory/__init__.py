"""Checkpoints that stay in the memory of their nodes as well.

A *holder*, a program beside the processes that train, has the memory: files without a name
(``memfd_create``), which end with their last holder. A process writes its shard into such a file,
uploads it from there, and tells the holder that it is whole. The holder sends one copy to the
holder of another node. A restore chooses by the manifests in the storage and compares every chunk
with them, wherever the bytes come from.
"""
