"""Prefetch pods: which of their DaemonSets go, and when one makes room for another."""
