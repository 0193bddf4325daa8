"""Runs beside one engine, exercises each of its boots, and opens the pod's gate on evidence."""
