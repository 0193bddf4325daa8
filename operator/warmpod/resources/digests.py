"""The images of a spec whose tags are resolved, and what they were resolved to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from warmpod.api.v1alpha1 import WarmModelSpec


@dataclass(frozen=True)
class Digests:
    """None: not resolved, the image is used as written; or the model's source is no image."""

    engine: str | None
    model: str | None
    additional: Mapping[str, str | None] = field(default_factory=dict)
    """Of the additional models that are images, by name."""
    cache: str | None = None
    """Of spec.compileCache.image."""

    @classmethod
    def resolved(cls, spec: WarmModelSpec, digest_of: Callable[[str], str | None]) -> Digests:
        model, cache = spec.model.image, spec.compile_cache.image
        return cls(
            engine=digest_of(spec.engine.image),
            model=None if model is None else digest_of(model),
            additional={
                item.name: digest_of(item.image)
                for item in spec.additional_models
                if item.image is not None
            },
            cache=None if cache is None else digest_of(cache),
        )

    def unresolved(self, spec: WarmModelSpec) -> tuple[str, ...]:
        """The images of the spec that have no digest here."""
        found = [(spec.engine.image, self.engine), (spec.model.image, self.model)]
        found += [(item.image, self.additional.get(item.name)) for item in spec.additional_models]
        found.append((spec.compile_cache.image, self.cache))
        return tuple(image for image, digest in found if image is not None and digest is None)
