import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub.hf_api import RepoSibling

from support.file_server import running
from support.hub_server import HubServer
from unit.agent.staging.callers import Caller
from unit.weights.models import SHARDS
from warmpod import reasons
from warmpod.agent.staging import SourceError
from warmpod.agent.staging.commit import noted

TOKEN = "hf_abcdefgh"


@pytest.fixture
def hub(model: Path) -> Iterator[HubServer]:
    (model / ".gitattributes").write_text("*.bin filter=lfs\n")
    with running(HubServer(model.parent.parent)) as server:
        # Files lie at another origin, as those of the real hub do.
        server.cdn = server.url_of_other_origin
        yield server


def spec(hub: HubServer, **more: object) -> dict[str, object]:
    return {"repository": "org/model", "endpoint": hub.url, **more}


def refusal(caller: Caller, source: dict[str, object]) -> SourceError:
    with pytest.raises(SourceError) as caught:
        caller.stage(huggingFace=source)
    assert TOKEN not in str(caught.value)
    assert not (caller.target / "warmpod-manifest.json").exists()
    return caught.value


def test_stages_a_repository(hub: HubServer, caller: Caller, model: Path) -> None:
    manifest = caller.stage(huggingFace=spec(hub))
    caller.assert_holds(model, manifest)
    # All of one commit, whatever the branch does meanwhile.
    commit = hub.commit("org/model")
    resolved = [seen.path for seen in hub.seen if "/resolve/" in seen.path]
    assert resolved
    assert all(f"/resolve/{commit}/" in path for path in resolved)
    assert noted(caller.target) == commit


def test_a_second_call_downloads_nothing(hub: HubServer, caller: Caller, model: Path) -> None:
    caller.stage(huggingFace=spec(hub))
    hub.seen.clear()
    caller.assert_holds(model, caller.stage(huggingFace=spec(hub)))
    assert [seen.path.partition("?")[0] for seen in hub.seen] == [
        "/api/models/org/model/revision/main"
    ]


def test_include_and_exclude(hub: HubServer, caller: Caller, model: Path) -> None:
    source = spec(hub, include=["*.json", "*.safetensors"], exclude=["original/*"])
    caller.assert_holds(model, caller.stage(huggingFace=source), ("original/params.json",))


def test_nothing_included_is_a_mismatch(hub: HubServer, caller: Caller) -> None:
    assert refusal(caller, spec(hub, include=["*.gguf"])).reason == reasons.PATH_MISMATCH


def test_a_private_repository_recovers_when_the_secret_appears(
    hub: HubServer, caller: Caller, model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    hub.token = TOKEN
    error = refusal(caller, spec(hub))
    assert error.reason == reasons.SOURCE_UNAUTHORIZED
    assert "no token was sent" in str(error)
    caller.secret(token="hf_wrong")
    error = refusal(caller, spec(hub))
    assert error.reason == reasons.SOURCE_UNAUTHORIZED
    assert "does not accept the token" in str(error)
    caller.secret(token=TOKEN)
    caller.assert_holds(model, caller.stage(huggingFace=spec(hub)))
    assert TOKEN not in caplog.text
    assert not any(TOKEN.encode() in path.read_bytes() for path in caller.target.rglob("*.jsonl"))


def test_the_token_stays_with_the_hub(hub: HubServer, caller: Caller) -> None:
    hub.token = TOKEN
    caller.secret(token=TOKEN)
    caller.stage(huggingFace=spec(hub))
    elsewhere = [seen for seen in hub.seen if seen.path.startswith("/cdn/")]
    assert elsewhere
    assert all("Authorization" not in seen.headers for seen in elsewhere)


def test_no_token_of_the_environment_is_sent(
    hub: HubServer, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_of_somebody")
    caller.stage(huggingFace=spec(hub))
    assert all("Authorization" not in seen.headers for seen in hub.seen)


def test_gated(hub: HubServer, caller: Caller) -> None:
    hub.gated = True
    error = refusal(caller, spec(hub))
    assert error.reason == reasons.SOURCE_UNAUTHORIZED
    assert "is gated" in str(error)
    caller.secret(token=TOKEN)
    error = refusal(caller, spec(hub))
    assert error.reason == reasons.SOURCE_FORBIDDEN
    assert f"accept its terms at {hub.url}/org/model" in str(error)
    hub.gated = False
    caller.stage(huggingFace=spec(hub))


def test_what_does_not_exist(hub: HubServer, caller: Caller) -> None:
    error = refusal(caller, spec(hub, repository="org/none"))
    assert error.reason == reasons.SOURCE_UNAUTHORIZED
    assert "check the name" in str(error)
    caller.secret(token=TOKEN)
    assert refusal(caller, spec(hub, repository="org/none")).reason == reasons.SOURCE_NOT_FOUND
    error = refusal(caller, spec(hub, revision="v9"))
    assert error.reason == reasons.SOURCE_NOT_FOUND
    assert "huggingFace.revision" in str(error)
    assert refusal(caller, spec(hub, repository="a/b/c")).reason == reasons.PATH_MISMATCH


def test_not_a_hub(web, caller: Caller) -> None:
    (web.root / "api/models/org/model/revision").mkdir(parents=True)
    (web.root / "api/models/org/model/revision/main").write_text("<html>")
    source = {"repository": "org/model", "endpoint": web.url}
    assert refusal(caller, source).reason == reasons.PATH_MISMATCH


def test_a_changed_shard_is_downloaded_once_more_and_then_named(
    hub: HubServer, caller: Caller, model: Path
) -> None:
    hub.faults.flips = {SHARDS[1]}
    error = refusal(caller, spec(hub))
    assert error.reason == reasons.DIGEST_MISMATCH
    assert SHARDS[1] in str(error)
    assert not (caller.target / SHARDS[1]).exists()
    hub.faults.flips = set()
    caller.assert_holds(model, caller.stage(huggingFace=spec(hub)))


def test_a_small_file_is_compared_with_its_git_name(hub: HubServer, caller: Caller) -> None:
    hub.faults.flips = {"config.json"}
    error = refusal(caller, spec(hub))
    assert error.reason == reasons.DIGEST_MISMATCH
    assert "git-blob" in str(error)


def test_a_moved_branch_leaves_nothing_of_the_old_commit(
    hub: HubServer, caller: Caller, model: Path
) -> None:
    caller.stage(huggingFace=spec(hub))
    (model / "config.json").write_text('{"new": 1}')
    (model / "original/params.json").unlink()
    hub.seen.clear()
    caller.assert_holds(model, caller.stage(huggingFace=spec(hub)))
    resolved = [seen.path for seen in hub.seen if "/resolve/" in seen.path]
    assert [path.rpartition("/")[2] for path in resolved] == ["config.json"]
    assert not (caller.target / "original").exists()
    assert noted(caller.target) == hub.commit("org/model")


def test_files_that_were_copied_here_are_recognised(
    hub: HubServer, caller: Caller, model: Path
) -> None:
    caller.target.mkdir()
    (caller.target / SHARDS[0]).write_bytes((model / SHARDS[0]).read_bytes())
    (caller.target / SHARDS[1]).write_bytes(b"\0" * (model / SHARDS[1]).stat().st_size)
    caller.assert_holds(model, caller.stage(huggingFace=spec(hub)))
    downloaded = " ".join(seen.path for seen in hub.seen)
    assert SHARDS[0] not in downloaded
    assert SHARDS[1] in downloaded


def test_an_agent_without_remote_sources_loads_no_client() -> None:
    program = (
        "import sys, warmpod.agent.staging\n"
        "print([name for name in ('huggingface_hub', 'requests', 'awscrt', 'httpx2')"
        " if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "sibling",
    [
        7,
        RepoSibling("a", size="5", blob_id="b" * 40),
        RepoSibling("a", size=-5, blob_id="b" * 40),
    ],
    ids=str,
)
def test_answers_that_make_no_sense(
    hub: HubServer, caller: Caller, monkeypatch: pytest.MonkeyPatch, sibling: object
) -> None:
    answer = SimpleNamespace(sha="c" * 40, siblings=[sibling])
    monkeypatch.setattr("warmpod.agent.staging.hub.Hub._info", lambda _: answer)
    assert refusal(caller, spec(hub)).reason == reasons.PATH_MISMATCH
