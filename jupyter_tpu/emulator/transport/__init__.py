"""Serve the core over gRPC and REST: parsing, HTTP rules, API versions, and errors in Google's format."""
