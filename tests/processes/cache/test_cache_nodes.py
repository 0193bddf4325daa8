"""`warmpod cache ls` and `rm`, through a WebSocket to the agents' own command."""

from __future__ import annotations

import json

from cache_scene import Scene

from support.compile_caches import publish, set_aside


def test_what_the_nodes_keep_is_listed(scene: Scene) -> None:
    one, other = scene.add_node("n1"), scene.add_node("n2")
    entry = publish(one, gpu=("NVIDIA H200",))
    publish(other)
    set_aside(other, publish(other, driver="1.2"), "the engine died with it")
    status, output, errors = scene.run("ls", "tiny")
    assert status == 0, errors
    header, *rows = output.splitlines()
    assert header.split()[:6] == ["KEY", "NODE", "STATE", "SIZE", "FILES", "CREATED"]
    assert len(rows) == 3
    (row,) = (row for row in rows if entry.key in row)
    assert " n1 " in row
    assert "NVIDIA H200" in row
    assert any(row.endswith("the engine died with it") for row in rows)


def test_as_json_and_of_one_node(scene: Scene) -> None:
    publish(scene.add_node("n1"))
    entry = publish(scene.add_node("n2"), driver="1.2")
    status, output, errors = scene.run("ls", "tiny", "--node=n2", "-o", "json")
    assert status == 0, errors
    (found,) = json.loads(output)
    assert (found["node"], found["key"], found["size"]) == ("n2", entry.key, entry.bytes)
    assert found["factors"]["driver"] == "1.2"


def test_a_node_that_fails_does_not_hide_the_others(scene: Scene) -> None:
    entry = publish(scene.add_node("n1"))
    scene.add_node("n2").rmdir()
    status, output, errors = scene.run("ls", "tiny")
    assert status == 1
    assert entry.key in output
    assert "error: node n2: container agent of pod demo/n2: this pod has no store" in errors


def test_one_is_removed_wherever_it_is(scene: Scene) -> None:
    roots = [scene.add_node(node) for node in ("n1", "n2", "n3")]
    gone = [publish(root, driver="1.2") for root in roots[:2]]
    kept = publish(roots[2])
    status, output, errors = scene.run("rm", "tiny", gone[0].key[:12])
    assert status == 0, errors
    assert output.splitlines() == [f"removed {gone[0].key} from node {n}" for n in ("n1", "n2")]
    assert not any(entry.directory.exists() for entry in gone)
    assert kept.directory.exists()
    removals = [pod for pod, command in scene.server.commands if command[2] == "rm"]
    assert sorted(removals) == ["n1", "n2"]


def test_all_of_a_node_are_removed(scene: Scene) -> None:
    one, other = publish(scene.add_node("n1")), publish(scene.add_node("n2"))
    status, output, errors = scene.run("rm", "tiny", "--node", "n2")
    assert status == 0, errors
    assert output == f"removed {other.key} from node n2\n"
    assert one.directory.exists()


def test_an_unknown_key(scene: Scene) -> None:
    publish(scene.add_node("n1"))
    status, output, errors = scene.run("rm", "tiny", "zz")
    assert (status, output) == (1, "")
    assert errors == "error: no entry has a key that begins with zz: see cache ls\n"


def test_one_may_not(scene: Scene) -> None:
    scene.add_node("n1")
    scene.server.refuse_exec = 403
    status, _, errors = scene.run("ls", "tiny")
    assert status == 1
    assert "have an administrator allow get and create of pods/exec in namespace demo" in errors
