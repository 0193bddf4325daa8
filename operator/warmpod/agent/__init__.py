"""Runs on every node that could serve: verifies the weights, holds them in memory, reports."""
