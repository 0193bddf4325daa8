"""The tiny models have the files and the numbers of real ones."""

import json
import math
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import tiny_bert
import tiny_model
import tiny_packed

WRITERS = [*tiny_model.KINDS.values(), *tiny_bert.KINDS.values(), *tiny_packed.KINDS.values()]


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


@pytest.mark.parametrize("write", WRITERS)
def test_the_same_files_on_every_run(write: Callable[[Path], None], tmp_path: Path):
    runs = [tmp_path / "first", tmp_path / "second"]
    for directory in runs:
        write(directory)
    first, second = ({p.name: p.read_bytes() for p in run.iterdir()} for run in runs)
    assert first == second


def test_the_index_names_every_tensor_of_two_shards(model: Path):
    index = json.loads((model / "model.safetensors.index.json").read_text())
    shards = sorted(model.glob("*.safetensors"))
    assert len(shards) == 2
    found = {name: shard.name for shard in shards for name in read_safetensors(shard)[0]}
    assert found == index["weight_map"]


@pytest.mark.parametrize("write", WRITERS)
def test_tensors_fill_the_shard_without_gaps(write: Callable[[Path], None], tmp_path: Path):
    write(tmp_path)
    for shard in tmp_path.glob("*.safetensors"):
        header, data = read_safetensors(shard)
        end = 0
        for tensor in header.values():
            start, stop = tensor["data_offsets"]
            each = {"BF16": 2, "I32": 4}[tensor["dtype"]]
            assert (start, stop - start) == (end, each * math.prod(tensor["shape"]))
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


def test_a_base_model_differs_only_in_its_chat_template(model: Path, tmp_path: Path):
    tiny_model.write_base(tmp_path)
    chat, base = (
        json.loads((directory / "tokenizer_config.json").read_text())
        for directory in (model, tmp_path)
    )
    assert chat.pop("chat_template")
    assert chat == base
    for path in model.iterdir():
        if path.name != "tokenizer_config.json":
            assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_an_adapter_fits_the_projections_that_it_names(model: Path, tmp_path: Path):
    tiny_model.write_adapter(tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    header, _ = read_safetensors(tmp_path / "adapter_model.safetensors")
    shards = (read_safetensors(path)[0] for path in model.glob("*.safetensors"))
    adapted = {name: tensor["shape"] for shard in shards for name, tensor in shard.items()}
    factors = {name.removeprefix("base_model.model.").rpartition(".lora_")[0] for name in header}
    assert {name.rpartition(".")[2] for name in factors} == set(config["target_modules"])
    for name in factors:
        out, into = adapted[f"{name}.weight"]
        first, second = (
            header[f"base_model.model.{name}.lora_{factor}.weight"]["shape"] for factor in "AB"
        )
        assert (first, second) == ([config["r"], into], [out, config["r"]])


@pytest.mark.parametrize(("method", "words"), [("gptq", [16, 64]), ("awq", [128, 8])])
def test_layers_are_packed_and_the_rest_is_not(
    model: Path, tmp_path: Path, method: str, words: list[int]
):
    tiny_packed.KINDS[method](tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["quantization_config"]["quant_method"] == method
    header, data = read_safetensors(tmp_path / "model-00002-of-00002.safetensors")
    plain, _ = read_safetensors(model / "model-00002-of-00002.safetensors")
    prefix = "model.layers.1.mlp.down_proj."  # from 128 inputs to 64 outputs
    assert header[f"{prefix}qweight"]["shape"] == words
    assert header[f"{prefix}scales"]["shape"] == [4, 64]
    assert f"{prefix}weight" not in header
    assert header["lm_head.weight"]["shape"] == plain["lm_head.weight"]["shape"]
    # As numbers of four bits they spread as far as the others: what is likely stays likely.
    start, stop = header[f"{prefix}qweight"]["data_offsets"]
    numbers = [half for byte in data[start:stop] for half in (byte & 15, byte >> 4)]
    spread = math.sqrt(sum((number - 8) ** 2 for number in numbers) / len(numbers))
    assert spread * tiny_packed.SCALE == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("write", tiny_bert.KINDS.values(), ids=tiny_bert.KINDS)
def test_a_bert_has_an_embedding_for_each_token(write: Callable[[Path], None], tmp_path: Path):
    write(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    header, _ = read_safetensors(tmp_path / "model.safetensors")
    (words,) = (t for name, t in header.items() if name.endswith("word_embeddings.weight"))
    assert words["shape"] == [config["vocab_size"], config["hidden_size"]]
    assert sorted(tokenizer["model"]["vocab"].values()) == list(range(config["vocab_size"]))
    special = {token["id"] for token in tokenizer["post_processor"]["special_tokens"].values()}
    assert special == {"[CLS]", "[SEP]"}
