"""Generated gRPC stubs of yarnam.proto; see tools/generate_protobuf.py."""
