"""What a run's node is and does: GPUs, host, processes; read once per node by the process that holds its locks."""
