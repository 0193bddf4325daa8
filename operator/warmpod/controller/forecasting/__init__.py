"""Forecasts of load: recorded, computed in a process of its own, and compared with what came.

Nothing here is loaded or started for WarmModels whose `spec.forecast.mode` is Off, and the library
never by the operator's own process: it would keep 160 MB for good.
"""
