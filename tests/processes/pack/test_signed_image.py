"""What was packed and signed into a registry is what the agent accepts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pack_process import Pack, finished

from support import signing
from support.crane import CraneRegistry, pulled
from warmpod.agent.sources.signature import SignatureCheck
from warmpod.agent.sources.signed_image import Wanted
from warmpod.reasons import SIGNATURE_INVALID, SIGNATURE_MISSING
from warmpod.weights.hashing import unwatched

Sign = Callable[[signing.Key, str, str, str], None]


def unpack(reference: str, folder: Path) -> Path:
    """As the node mounts it."""
    mounted = folder / "mounted"
    with pulled(reference, folder) as files:
        for name, content in files.items():
            (mounted / name).parent.mkdir(parents=True, exist_ok=True)
            (mounted / name).write_bytes(content)
    return mounted


@pytest.mark.parametrize("sign", [signing.sign, signing.sign_with_bundle])
def test_signed_in_a_real_registry(
    registry: CraneRegistry, pack: Pack, model: Path, tmp_path: Path, sign: Sign
) -> None:
    reference = f"{registry.host}/models/x:1.0"
    status, output, errors = finished(pack(model, reference))
    assert status == 0, errors
    digest = output.strip().partition("@")[2]
    mounted = unpack(reference, tmp_path)
    key = signing.Key()

    def reason() -> str | None:
        """Each time as an agent that knows nothing yet."""
        state = tmp_path / "state"
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir()
        finding = SignatureCheck(Wanted(output.strip(), key.pem), state, unwatched).look(mounted)
        return finding.reason if finding else None

    assert reason() == SIGNATURE_MISSING
    sign(signing.Key(), registry.host, "models/x", digest)
    assert reason() == SIGNATURE_INVALID
    sign(key, registry.host, "models/x", digest)
    assert reason() is None
    (mounted / "modeling.py").write_text("print()")
    assert reason() == SIGNATURE_INVALID
