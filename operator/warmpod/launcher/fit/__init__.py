"""Whether driver, GPU, CUDA, torch and vLLM fit together."""
