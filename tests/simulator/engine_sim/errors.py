"""How vLLM refuses a request: one body for all errors."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

Json = dict[str, Any]


class RequestError(Exception):
    """A request that vLLM refuses, with its HTTP status, error type and named parameter."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param


class EngineDeadError(Exception):
    """The engine process is gone; no request will be answered any more."""

    def __init__(self) -> None:
        super().__init__(
            "EngineCore encountered an issue. See stack trace (above) for the root cause."
        )


def body_of(status: int, kind: str, message: str, param: str | None = None) -> Json:
    """The body of a failed request."""
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def plain_body(status: int, message: str) -> Json:
    """The body of an error that FastAPI makes, such as 404 for a path that is not there."""
    return body_of(status, HTTPStatus(status).phrase, message)


def bad(message: str, param: str | None = None) -> RequestError:
    """A request whose values vLLM does not take."""
    return RequestError(400, "BadRequestError", message, param)


def malformed(kind: str, field: str, message: str, value: object = None) -> RequestError:
    """A body that does not fit the endpoint's schema, in the words of vLLM's handler."""
    location = ".".join(filter(None, ["body", field]))
    found = {"type": kind, "loc": location, "msg": message, "input": _shown(value)}
    text = f"1 validation error:\n  {found}"
    return RequestError(400, HTTPStatus.BAD_REQUEST.phrase, text, location)


def missing(field: str, body: object) -> RequestError:
    """A field that the endpoint cannot do without."""
    return malformed("missing", field, "Field required", body)


def invalid(message: str, param: str) -> RequestError:
    """Fields that contradict each other; vLLM finds this while it reads the body."""
    failed = malformed("value_error", "", f"Value error, {message}")
    failed.param = param
    return failed


def _shown(value: object) -> object:
    if isinstance(value, (dict, list)):
        return f"<{type(value).__name__} of {len(value)} items>"
    return str(value)[:200]
