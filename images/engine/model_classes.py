"""Has vLLM look at its model classes and keep what it finds.

Before anything else an engine asks what a model's class can do. If it has not kept the answer, it
starts a process that imports vLLM and the class, and ends.
"""

import os
import sys
from pathlib import Path

from vllm.model_executor.models import registry


def main() -> int:
    # In this process: there is no GPU whose beginning would do harm, and the imports are paid once.
    registry._run_in_subprocess = lambda look: look()
    models = registry.ModelRegistry.models
    failed = {name: why for name in sorted(models) if (why := look_at(models[name]))}
    for name, why in failed.items():
        print(f"{name}: {why}")
    kept = list(Path(os.environ["VLLM_CACHE_ROOT"], "modelinfos").glob("*.json"))
    print(f"Looked at {len(models)} model classes, kept {len(kept)} answers; {len(failed)} failed.")
    return 0 if kept else 1


def look_at(model: object) -> str:
    """Why it was not possible: a class may want a package, or a GPU, that is not here. Such a one
    is looked at when an engine starts, as ever."""
    try:
        model.inspect_model_cls()
    except (Exception, SystemExit) as failed:
        return f"{type(failed).__name__}: {failed}".splitlines()[0][:200]
    return ""


if __name__ == "__main__":
    sys.exit(main())
