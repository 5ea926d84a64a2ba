"""A small HTTP server for pages that are only read, and who may ask it."""
