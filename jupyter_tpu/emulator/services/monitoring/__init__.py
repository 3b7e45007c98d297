"""Cloud Monitoring v3, limited to what dashboards of TPU workers use. Start with `methods`."""
