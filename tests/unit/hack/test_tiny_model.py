"""The tiny model has the files and the numbers of a real one."""

import json
import struct
from pathlib import Path

import pytest

import tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    tiny_model.write(directory)
    return directory


def read_safetensors(path: Path) -> tuple[dict[str, dict], bytes]:
    content = path.read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__")
    return header, content[8 + length :]


def bfloat16_values(data: bytes) -> list[float]:
    halves = struct.iter_unpack("<2s", data)
    return [struct.unpack("<f", b"\0\0" + half)[0] for (half,) in halves]


def test_the_same_files_on_every_run(model: Path, tmp_path: Path):
    tiny_model.write(tmp_path)
    assert {p.name: p.read_bytes() for p in model.iterdir()} == {
        p.name: p.read_bytes() for p in tmp_path.iterdir()
    }


def test_the_index_names_every_tensor_of_two_shards(model: Path):
    index = json.loads((model / "model.safetensors.index.json").read_text())
    shards = sorted(model.glob("*.safetensors"))
    assert len(shards) == 2
    found = {name: shard.name for shard in shards for name in read_safetensors(shard)[0]}
    assert found == index["weight_map"]


def test_tensors_fill_the_shard_without_gaps(model: Path):
    for shard in model.glob("*.safetensors"):
        header, data = read_safetensors(shard)
        end = 0
        for tensor in header.values():
            start, stop = tensor["data_offsets"]
            values = 1
            for dimension in tensor["shape"]:
                values *= dimension
            assert (start, stop - start) == (end, 2 * values)
            end = stop
        assert end == len(data)


def test_only_printable_tokens_have_a_chance(model: Path):
    header, data = read_safetensors(model / "model-00002-of-00002.safetensors")
    start, stop = header["lm_head.weight"]["data_offsets"]
    first_of_row = bfloat16_values(data[start:stop])[:: tiny_model.HIDDEN]
    likely = {token for token, value in enumerate(first_of_row) if value == 0}
    assert bytes(sorted(likely)).decode().isprintable()
    assert len(likely) == 95


def test_the_alphabet_has_a_visible_character_for_each_byte():
    alphabet = tiny_model.byte_alphabet()
    assert len(set(alphabet)) == 256
    assert all(character.isprintable() and not character.isspace() for character in alphabet)
    # From the byte-level tokenizers in use: space is G with a dot, newline is C with a dot.
    assert (alphabet[ord(" ")], alphabet[ord("\n")], alphabet[ord("A")]) == ("Ġ", "Ċ", "A")


def test_special_tokens_follow_the_bytes(model: Path):
    config = json.loads((model / "config.json").read_text())
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    assert (vocabulary["<s>"], vocabulary["</s>"]) == (256, 257)
    assert sorted(vocabulary.values()) == list(range(config["vocab_size"]))
    assert (config["bos_token_id"], config["eos_token_id"]) == (256, 257)
