"""Requests to the other services: methods by verb and path, bodies, errors. Start with `service_calls`."""
