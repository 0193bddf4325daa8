"""The copies of weights that a node keeps: who needs them, how they are filled, what they were
made of."""
