"""The names that a server answers to: base model, aliases, LoRA adapters."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

from engine_sim import logs
from engine_sim.errors import Json, RequestError
from engine_sim.setup import Setup


class Adapters:
    """Loaded adapters beside the names of the base model."""

    def __init__(self, setup: Setup) -> None:
        self._arguments = setup.arguments
        self._created = int(time.time())
        self._paths: dict[str, str] = {}
        for module in setup.arguments.lora_modules:
            self.load(module.name, module.path)

    def resolve(self, wanted: object) -> tuple[str, str]:
        """The model's name for the answer, and its adapter, "" for none. Raises RequestError."""
        names = self._arguments.served_names
        if not wanted:
            return names[0], ""
        if wanted in names:
            return names[0], ""
        if wanted in self._paths:
            return str(wanted), str(wanted)
        raise RequestError(
            404,
            "NotFoundError",
            f"The model `{wanted}` does not exist. Valid aliases: {', '.join(names)}.",
            "model",
        )

    def load(self, name: str, path: str, in_place: bool = False) -> str:
        """Load an adapter; returns what vLLM answers. Raises RequestError."""
        if not name or not path:
            raise _invalid("Both 'lora_name' and 'lora_path' must be provided.")
        if name in self._arguments.served_names:
            raise _invalid(f"The lora adapter '{name}' conflicts with a served base model.")
        if name in self._paths and not in_place:
            raise _invalid(
                f"The lora adapter '{name}' has already been loaded. If you want to load the "
                "adapter in place, set 'load_inplace' to True."
            )
        if not self._arguments.enable_lora:
            raise RequestError(500, "InternalServerError", "LoRA is not enabled.")
        if path.startswith("/") and not Path(path).is_dir():
            raise RequestError(
                404,
                "NotFoundError",
                f"Loading lora {name} failed: No adapter found for {path}",
            )
        self._paths[name] = path
        logs.line(
            "APIServer",
            "serving.py:231",
            f"Loaded new LoRA adapter: name '{name}', path '{path}'",
        )
        return f"Success: LoRA adapter '{name}' added successfully."

    def unload(self, name: str) -> str:
        """Forget an adapter; returns what vLLM answers. Raises RequestError."""
        if not name:
            raise _invalid("'lora_name' needs to be provided to unload a LoRA adapter.")
        if name not in self._paths:
            raise RequestError(404, "NotFoundError", f"The lora adapter '{name}' cannot be found.")
        del self._paths[name]
        logs.line("APIServer", "serving.py:247", f"Removed LoRA adapter: name '{name}'")
        return f"Success: LoRA adapter '{name}' removed successfully."

    def cards(self) -> Json:
        """The body of /v1/models."""
        arguments = self._arguments
        cards = [
            self._card(name, arguments.model, None, arguments.max_model_len)
            for name in arguments.served_names
        ]
        base = arguments.served_names[0]
        cards += [self._card(name, path, base, None) for name, path in self._paths.items()]
        return {"object": "list", "data": cards}

    def _card(self, name: str, root: str, parent: str | None, length: int | None) -> Json:
        return {
            "id": name,
            "object": "model",
            "created": self._created,
            "owned_by": "vllm",
            "root": root,
            "parent": parent,
            "max_model_len": length,
            "permission": [_permission(self._created)],
        }


def _permission(created: int) -> Json:
    return {
        "id": f"modelperm-{uuid.uuid4().hex}",
        "object": "model_permission",
        "created": created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }


def _invalid(message: str) -> RequestError:
    return RequestError(400, "InvalidUserInput", message)
