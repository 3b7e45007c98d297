"""The core as gRPC and REST: parsing, HTTP rules, API versions, and errors as Google prints them."""
