"""Weights in memory: held there, measured, read again, and how much of them may be there at all."""
