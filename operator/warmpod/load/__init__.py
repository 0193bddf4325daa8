"""Plays requests at an engine and measures it; `kubectl warm tune` runs it in a pod."""
