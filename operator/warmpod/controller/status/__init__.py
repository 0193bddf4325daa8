"""The status of a WarmModel, made from the facts, and which of its changes are events."""
