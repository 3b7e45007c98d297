"""Cloud Monitoring v3, as far as dashboards of TPU workers use it."""
