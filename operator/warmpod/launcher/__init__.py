"""PID 1 of the engine container.

Standard library only, Python 3.10 or newer: it runs on the interpreter of the user's engine image.
"""
