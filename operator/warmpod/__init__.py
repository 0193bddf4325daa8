"""warmpod: vLLM pods that take traffic only when they are measurably warm."""
