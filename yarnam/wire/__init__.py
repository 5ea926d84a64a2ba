"""Everything that crosses a process border: journal lines, job records, rank environments, protobuf
mapping.

Everything here is versioned: see ``yarnam.wire.protocol``.
"""
