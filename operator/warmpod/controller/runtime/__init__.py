"""The operator's own process: its queue and workers, its tasks, its health and its log lines."""
