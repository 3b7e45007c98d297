"""Requests to Google services other than Cloud TPU: methods, bodies and errors. Start with `service_calls`."""
