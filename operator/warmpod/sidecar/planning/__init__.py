"""Which requests exercise an engine: what it serves and `spec.warmup` become buckets. Pure, but for
`read_prompts`, which reads the mounted ConfigMaps."""

from warmpod.sidecar.planning.bodies import plain_body, waves_for
from warmpod.sidecar.planning.document import plan_document
from warmpod.sidecar.planning.make import candidates, make_plan
from warmpod.sidecar.planning.model import (
    ADAPTER,
    API_ENDPOINTS,
    PREFIX,
    USER,
    Bucket,
    Endpoint,
    Plan,
    Served,
    TokenCost,
)
from warmpod.sidecar.planning.user import UserPrompt, inline_prompts, read_prompts

__all__ = [
    "ADAPTER",
    "API_ENDPOINTS",
    "PREFIX",
    "USER",
    "Bucket",
    "Endpoint",
    "Plan",
    "Served",
    "TokenCost",
    "UserPrompt",
    "candidates",
    "inline_prompts",
    "make_plan",
    "plain_body",
    "plan_document",
    "read_prompts",
    "waves_for",
]
