"""Helpers that several layers of tests share."""
