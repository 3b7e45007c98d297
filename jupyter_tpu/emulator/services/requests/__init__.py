"""How the other services are called: methods by verb and path, bodies, errors. Start with `service_calls`."""
