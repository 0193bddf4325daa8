"""How a boot is called: vLLM's command, and what is added to it."""
