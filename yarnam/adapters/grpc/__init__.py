"""The ApplicationMaster's gRPC services, and their client."""
