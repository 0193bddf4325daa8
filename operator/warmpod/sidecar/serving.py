"""What a boot serves now, and the plan that follows from it."""

from dataclasses import replace

from warmpod.sidecar.asking import Asker
from warmpod.sidecar.config import SidecarConfig
from warmpod.sidecar.engine import Engine
from warmpod.sidecar.learn import Learned, learn
from warmpod.sidecar.planning import Plan, Served, inline_prompts, make_plan, read_prompts
from warmpod.sidecar.record import Record


async def what_is_served(
    engine: Engine, config: SidecarConfig, asker: Asker, record: Record
) -> Learned:
    """Raises EngineError."""
    learned = await learn(
        engine,
        config.served_name,
        asker.timeout_seconds,
        asker.token,
        config.engine,
        config.warmup,
        record.now_trying,
    )
    record.now_playing("")
    return learned


def present_plan(served: Served, config: SidecarConfig) -> Plan:
    """With the user's prompts as they stand in the spec and in the mounted files."""
    mounted, notes = read_prompts(config.prompts_dir, config.warmup.prompts_from)
    plan = make_plan(served, config.warmup, [*inline_prompts(config.warmup.prompts), *mounted])
    return replace(plan, notes=plan.notes + notes)
