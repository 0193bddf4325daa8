"""`POST /v1/namespaces/<namespace>/warmmodels/<name>/warm`: play warm-up again.

For callers that have a service account's token but no client for the Kubernetes API. With a client,
the annotation `warmpod.io/warm-now` does the same.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Callable

from aiohttp import web

from warmpod.controller.apiserver.kube import ApiError, Unreachable
from warmpod.controller.objects.views import Key
from warmpod.controller.triggers import identity
from warmpod.controller.triggers.reviews import NoReviews, Reviews, User
from warmpod.protocol import TOKEN_AUDIENCE, WARM_NOW_ANNOTATION

logger = logging.getLogger(__name__)

PATH = "/v1/namespaces/{namespace}/warmmodels/{name}/warm"
#: Tokens that are reviewed at a time: a flood of bad ones is not passed on to the API server.
MOST_REVIEWS = 4
#: Bytes of a request's body.
LONGEST_BODY = 4096


class Endpoint:
    def __init__(
        self,
        reviews: Reviews,
        ready: Callable[[], bool],
        exists: Callable[[Key], bool],
        post: Callable[[Key, str], None],
    ) -> None:
        self._reviews = reviews
        self._ready = ready
        self._exists = exists
        self._post = post
        self._turns = asyncio.Semaphore(MOST_REVIEWS)

    def add_to(self, app: web.Application) -> None:
        app.router.add_post(PATH, self.warm)

    async def warm(self, request: web.Request) -> web.Response:
        key = (request.match_info["namespace"], request.match_info["name"])
        try:
            user = await self._authorized(request, key)
            wanted = identity(await _wanted(request))
        except _Refused as refused:
            return refused.answer
        if not self._exists(key):
            return _error(404, f"there is no WarmModel {key[0]}/{key[1]}")
        logger.info("%s/%s: warm-up is asked for again by %s: %s", *key, user.name, wanted)
        self._post(key, wanted)
        return web.json_response({"id": wanted}, status=202)

    async def _authorized(self, request: web.Request, key: Key) -> User:
        """Raises _Refused. Whether a WarmModel exists is told to those only who may know."""
        if not self._ready():
            raise _Refused(503, "the operator is not ready: try again")
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise _Refused(401, f"a bearer token with the audience {TOKEN_AUDIENCE} is needed")
        if self._turns.locked():
            raise _Refused(503, "too many requests at a time: try again")
        async with self._turns:
            return await self._review(token.strip(), key)

    async def _review(self, token: str, key: Key) -> User:
        try:
            user = await self._reviews.user(token)
            if user is None:
                raise _Refused(401, f"the token is not valid for the audience {TOKEN_AUDIENCE}")
            if not await self._reviews.may_update(user, key):
                raise _Refused(
                    403, f"{user.name} may not update warmmodels.warmpod.io {key[1]} in {key[0]}"
                )
        except NoReviews as error:
            logger.warning("a token could not be reviewed: %s", error)
            raise _Refused(
                501,
                "this operator may not review tokens, because it has rights in single namespaces "
                f"only: set the annotation {WARM_NOW_ANNOTATION} instead",
            ) from error
        except (ApiError, Unreachable) as error:
            raise _Refused(503, f"the API server cannot be asked: {error}") from error
        return user


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.answer = _error(status, message)


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)


async def _wanted(request: web.Request) -> str:
    """The caller's own id, so that a request may be repeated without a second warm-up; without
    one, a new one. Raises _Refused."""
    text = await request.read()
    if not text.strip():
        return f"post-{uuid.uuid4()}"
    found = _id_of(text) if len(text) <= LONGEST_BODY else ""
    if not found:
        raise _Refused(400, 'the body is empty, or JSON such as {"id": "a commit"}')
    return found


def _id_of(text: bytes) -> str:
    """Empty where there is none. JSON can tell half a character (a surrogate), which the API server
    would store as another text, so that the request would never seem to be done."""
    try:
        body = json.loads(text)
        found = body.get("id") if isinstance(body, dict) else None
        return found.encode().decode() if isinstance(found, str) else ""
    except (ValueError, RecursionError):
        return ""
