"""libtpu's runtime metrics service, as `tpu-info` and the agent read it. Start with `readings`."""
