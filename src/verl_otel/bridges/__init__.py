"""Other people's metrics as metric data: prometheus_client's registries in this process, endpoints on this host."""
