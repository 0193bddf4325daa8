"""Computes forecasts: a process that ends when its input does.

One JSON object a line in, `{"id", "values", "season", "steps"}`, and one out,
`{"id", "forecast"}` or `{"id", "error"}`. A series that the library cannot fit is its own error and
does not keep the others from theirs.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

#: Seasons that a fit looks at: older ones say little of tomorrow and cost time.
SEASONS = 7


def forecast(values: Sequence[float], season: int, steps: int) -> list[float]:
    """The next values: Holt and Winters' smoothing, with an additive season and no trend, because
    a trend that is carried on for a day is what makes forecasts absurd. Never below zero."""
    recent = list(values)[-SEASONS * season :]
    if min(recent) == max(recent):
        return [recent[-1]] * steps  # nothing to fit, and the optimizer would divide by zero
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    with warnings.catch_warnings():
        # About fits that did not converge: the error that is measured later says how good they are.
        warnings.simplefilter("ignore")
        fitted = ExponentialSmoothing(
            recent, seasonal="add", seasonal_periods=season, initialization_method="heuristic"
        ).fit()
        found = [float(value) for value in fitted.forecast(steps)]
    if not all(value == value and abs(value) != float("inf") for value in found):
        raise ValueError("the fit has no finite values")
    return [max(0.0, value) for value in found]


def _answer(line: str) -> dict[str, Any]:
    asked = json.loads(line)
    try:
        found = forecast(asked["values"], asked["season"], asked["steps"])
    except Exception as error:  # whatever a library does with numbers that nobody foresaw
        return {"id": asked["id"], "error": f"{type(error).__name__}: {error}"}
    return {"id": asked["id"], "forecast": found}


def main() -> None:
    os.nice(10)
    for line in iter(sys.stdin.readline, ""):
        sys.stdout.write(json.dumps(_answer(line)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
