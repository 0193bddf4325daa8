"""The operator: events in, desired state out."""
