"""`pack`: a model becomes a weights image, in a directory or in a registry."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from warmpod.cli import destination, hub
from warmpod.cli.pushing import PushProgress, explained
from warmpod.registry import client, credentials
from warmpod.registry.errors import RegistryError
from warmpod.registry.reference import parse_reference
from warmpod.weights.findings import WeightsError
from warmpod.weights.pack import Model, PackedImage, pack_model
from warmpod.weights.push import push


class PackError(Exception):
    """The model was not packed; the message names the file, field or registry, and the remedy."""


def run(
    source: str,
    target: str,
    include: Sequence[str],
    exclude: Sequence[str],
    console: Console,
    errors: Console,
) -> None:
    """The result goes to `console`, how far it is to `errors`. Raises PackError."""
    try:
        where = destination.parse(target)
        model = _model(source, include, exclude, errors)
        if isinstance(where, Path):
            packed = _write(model, where, errors)
            _say_how_to_push(packed, where, console)
        else:
            packed = _push(model, where, errors)
            _say_how_to_use(packed, where, console, errors)
    except RegistryError as error:
        raise PackError(explained(error, target)) from error
    except (destination.DestinationError, hub.HubError, WeightsError, OSError) as error:
        raise PackError(str(error)) from error


def _model(source: str, include: Sequence[str], exclude: Sequence[str], errors: Console) -> Model:
    if source.startswith(hub.SCHEME):
        quiet = not errors.is_terminal
        errors.print(f"downloading {escape(source)}", soft_wrap=True)
        directory = hub.download(hub.parse(source), include, exclude, quiet)
        errors.print(f"packing {escape(str(directory))}", soft_wrap=True)
    else:
        directory = Path(source)
    return Model.of(directory, include, exclude)


def _write(model: Model, layout: Path, errors: Console) -> PackedImage:
    def written(path: str, size: int) -> None:
        errors.print(f"packed {escape(path)} ({size} bytes)", soft_wrap=True)

    return pack_model(model, layout, written)


def _push(model: Model, image: str, errors: Console) -> PackedImage:
    credential = credentials.of_user(parse_reference(image).name)

    async def pushed() -> PackedImage:
        async with client.opened(image, credential, "pull,push") as registry:
            return await push(model, registry, progress)

    with PushProgress(errors, model.size) as progress:
        return asyncio.run(pushed())


def _say_how_to_push(packed: PackedImage, layout: Path, console: Console) -> None:
    lines = (
        f"{packed.digest}: {packed.layers} layers, {packed.manifest.size} bytes of model",
        "Push it with one of:",
        f"  crane push {layout} REGISTRY/REPOSITORY:TAG",
        f"  skopeo copy --all oci:{layout} docker://REGISTRY/REPOSITORY:TAG",
    )
    for line in lines:
        console.print(escape(line), soft_wrap=True)


def _say_how_to_use(packed: PackedImage, image: str, console: Console, errors: Console) -> None:
    """Only the reference goes to standard output, for scripts."""
    reference = f"{image}@{packed.digest}"
    console.print(escape(reference), soft_wrap=True)
    lines = (
        f"{packed.layers} layers, {packed.manifest.size} bytes of model. In the WarmModel:",
        "  spec:",
        "    model:",
        f"      image: {reference}",
        f"Sign it for spec.model.verify with: cosign sign --key cosign.key {reference}",
    )
    for line in lines:
        errors.print(escape(line), soft_wrap=True)
