"""What `vllm serve` would import."""

import engine_sim.cli
import engine_sim.life

__all__ = ["engine_sim"]
