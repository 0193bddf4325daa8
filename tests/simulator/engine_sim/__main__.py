"""`python -m engine_sim serve …` does what the `vllm` script beside this package does."""

import sys

from engine_sim.cli import main

sys.exit(main(sys.argv[1:]))
