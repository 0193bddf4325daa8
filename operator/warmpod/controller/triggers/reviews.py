"""Who a token is, and what that user may do: both asked of the API server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from warmpod.controller.apiserver.kube import ApiError, Kube
from warmpod.controller.objects.views import Key
from warmpod.protocol import GROUP, PLURAL, TOKEN_AUDIENCE

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 (a path)
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class NoReviews(Exception):
    """The operator may not ask: it has rights in single namespaces only."""


@dataclass(frozen=True)
class User:
    name: str
    body: dict[str, Any]
    """As in the status of a TokenReview."""


class Reviews:
    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def user(self, token: str) -> User | None:
        """None for a token that is not valid, or not meant for us: one for the API server itself
        could do much more in the wrong hands than ask for a warm-up. Raises NoReviews, ApiError,
        Unreachable."""
        spec = {"token": token, "audiences": [TOKEN_AUDIENCE]}
        status = await self._review(_TOKEN_REVIEWS, "authentication.k8s.io", "TokenReview", spec)
        if not status.get("authenticated") or TOKEN_AUDIENCE not in (status.get("audiences") or []):
            return None
        body = status.get("user") or {}
        return User(body.get("username", ""), body)

    async def may_update(self, user: User, key: Key) -> bool:
        """Whether the user could set the annotation, which does the same. Raises as `user`."""
        spec = {
            "user": user.name,
            "uid": user.body.get("uid", ""),
            "groups": user.body.get("groups") or [],
            "extra": user.body.get("extra") or {},
            "resourceAttributes": {
                "namespace": key[0],
                "name": key[1],
                "verb": "update",
                "group": GROUP,
                "resource": PLURAL,
            },
        }
        kind = "SubjectAccessReview"
        status = await self._review(_ACCESS_REVIEWS, "authorization.k8s.io", kind, spec)
        return bool(status.get("allowed"))

    async def _review(
        self, path: str, group: str, kind: str, spec: dict[str, Any]
    ) -> dict[str, Any]:
        body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {}, "spec": spec}
        try:
            answer = await self._kube.request("POST", path, body=body)
        except ApiError as error:
            if error.status == 403:
                raise NoReviews(error.message) from error
            raise
        status: dict[str, Any] = answer.get("status") or {}
        return status
