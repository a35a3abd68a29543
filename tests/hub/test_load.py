"""A load accounts for every tensor, or refuses and names it; never a model with made-up weights."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import headway
from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, LanguageConfig, Linear, Special, StackConfig
from headway.config.text import SentenceConfig
from headway.models import count
from headway.presets.bert import bert
from headway.presets.gpt2 import gpt2
from headway.presets.llama import llama
from tests.fresh import fresh
from tests.processes import Processes

TINY = gpt2(width=22, layers=2, heads=2).model_copy(update={"vocabulary": 53, "length": 19})


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    headway.save(fresh(TINY), tmp_path / "model")
    return tmp_path / "model"


def rewrite(directory: Path, change) -> None:
    """Change the tensors of a directory as somebody else would: without our hash."""
    tensors = load_file(directory / "model.safetensors")
    change(tensors)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def reconfigure(directory: Path, **changes: object) -> None:
    path = directory / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def test_the_receipt_accounts_for_everything(saved: Path) -> None:
    model, tokenizer, receipt = headway.load(saved)
    assert tokenizer is None
    assert (receipt.family, receipt.expected, receipt.found) == ("gpt2", 28, 28)
    assert receipt.tied == ("lm_head.weight",)
    assert receipt.unused == receipt.missing == ()
    assert receipt.parameters == count(TINY) == sum(p.numel() for p in model.parameters())
    assert "gpt2" in str(receipt) and receipt.hash[:12] in str(receipt)


def test_what_was_saved_comes_back_bit_for_bit(saved: Path) -> None:
    model = headway.load(saved).model
    for name, parameter in fresh(TINY).named_parameters():
        assert torch.equal(parameter, model.get_parameter(name))
    assert model.config == TINY


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", torch.float16])
def test_another_dtype_on_request(saved: Path, dtype: object) -> None:
    model, _, receipt = headway.load(saved, dtype=dtype)  # type: ignore[arg-type]
    wanted = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    assert {parameter.dtype for parameter in model.parameters()} == {wanted}
    assert receipt.dtype == str(wanted).removeprefix("torch.")
    assert receipt.hash == headway.load(saved).receipt.hash, "the hash is of what is stored"


def test_shards_hold_the_same_weights(saved: Path, tmp_path: Path) -> None:
    model, _, whole = headway.load(saved)
    headway.save(model, tmp_path / "shards", shard=9_000)
    names = sorted(path.name for path in (tmp_path / "shards").glob("*.safetensors"))
    assert len(names) > 2
    again, _, receipt = headway.load(tmp_path / "shards")
    assert receipt.hash == whole.hash
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), again.parameters(), strict=True))


def test_files_of_the_bare_model_and_old_buffers_are_explained(saved: Path) -> None:
    def strip(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        tensors["h.0.attn.bias"] = torch.ones(1, 1, 19, 19)

    whole = headway.load(saved).receipt
    rewrite(saved, strip)
    receipt = headway.load(saved).receipt
    assert receipt.unused == ("h.0.attn.bias",)
    assert receipt.hash == whole.hash


def test_a_tied_tensor_under_its_second_name_alone_is_found(saved: Path) -> None:
    def rename(tensors: dict[str, torch.Tensor]) -> None:
        tensors["lm_head.weight"] = tensors.pop("transformer.wte.weight")

    whole = headway.load(saved).receipt
    rewrite(saved, rename)
    assert headway.load(saved).receipt.hash == whole.hash


def test_a_model_of_our_own_layout(tmp_path: Path) -> None:
    attention = AttentionConfig(width=21, heads=3, causal=True, mechanism=Linear(feature="relu"))
    block = BlockConfig(attention=attention, feedforward=FeedForwardConfig(hidden=17))
    config = LanguageConfig(vocabulary=31, length=23, stack=StackConfig(block=block, layers=2), tied=False)
    model = fresh(config)
    headway.save(model, tmp_path / "own")
    again = headway.load(tmp_path / "own").model
    tokens = torch.randint(0, 31, (2, 7))
    assert again.config == config and torch.equal(again(tokens), model(tokens))


def missing(tensors: dict) -> None:
    del tensors["transformer.h.1.mlp.c_fc.weight"]


def unexplained(tensors: dict) -> None:
    tensors["transformer.h.0.adapter.weight"] = torch.zeros(3)


def misshapen(tensors: dict) -> None:
    tensors["transformer.wpe.weight"] = tensors["transformer.wpe.weight"][:5].contiguous()


def quantised(tensors: dict) -> None:
    name = "transformer.h.0.attn.c_attn.weight"
    tensors[name] = (tensors[name] * 100).to(torch.int8)


def untied(tensors: dict) -> None:
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"] + 1


def doubled(tensors: dict) -> None:
    tensors["wte.weight"] = tensors["transformer.wte.weight"].clone()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (missing, "lacks 'transformer.h.1.mlp.c_fc.weight'"),
        (unexplained, "holds 'transformer.h.0.adapter.weight'"),
        (misshapen, r"'transformer.wpe.weight' has shape \(5, 22\), and config.json makes it \(19, 22\)"),
        (quantised, "'transformer.h.0.attn.c_attn.weight' is stored as I8"),
        (untied, "ties 'lm_head.weight' to 'transformer.wte.weight', and the file holds two different tensors"),
        (doubled, "two names of one tensor"),
    ],
)
def test_tensors_that_are_not_right_are_refused_by_name(saved: Path, change, words: str) -> None:
    rewrite(saved, change)
    with pytest.raises(ValueError, match=words):
        headway.load(saved)


def test_weights_changed_after_saving_are_refused(saved: Path) -> None:
    path = saved / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-7] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="their hash has changed"):
        headway.load(saved)


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_truncated_file_is_refused(saved: Path, keep: int) -> None:
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"model\.safetensors is not a whole safetensors file"):
        headway.load(saved)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "gptj"}, "knows no architecture 'gptj'"),
        ({"model_type": "gpt-2"}, "did you mean gpt2"),
        ({"model_type": None}, "names no model_type"),
        ({"n_head": None}, "does not say 'n_head'"),
        ({"n_head": 5}, "width 22 is not divisible by heads 5"),
        ({"n_layer": 3}, "lacks 'transformer.h.2.ln_1.weight' and 11 more"),
        ({"n_layer": 1}, "holds 'transformer.h.1."),
        ({"activation_function": "mish"}, "no activation 'mish'"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True"),
        ({"add_cross_attention": True}, "add_cross_attention=True"),
    ],
)
def test_configurations_that_cannot_be_honoured_are_refused(saved: Path, changes: dict, words: str) -> None:
    reconfigure(saved, **changes)
    with pytest.raises(ValueError, match=words) as found:
        headway.load(saved)
    assert str(saved) in str(found.value) or "model_type" in changes


def test_a_pickle_is_not_opened(saved: Path) -> None:
    (saved / "model.safetensors").rename(saved / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"pytorch_model\.bin may run code"):
        headway.load(saved)


def test_places_that_hold_no_model(tmp_path: Path, saved: Path) -> None:
    with pytest.raises(ValueError, match="nowhere does not exist"):
        headway.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is a file"):
        headway.load(saved / "config.json")
    with pytest.raises(ValueError, match=r"has no config\.json"):
        headway.load(tmp_path)
    with pytest.raises(ValueError, match="float64, float32, bfloat16 or float16, not int8"):
        headway.load(saved, dtype="int8")
    (saved / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is not valid JSON"):
        headway.load(saved)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ({"weight_map": {"a": "../../evil.safetensors"}}, "not a file of its own directory"),
        ({"weight_map": {"a": "gone.safetensors"}}, "gone.safetensors is missing"),
        ({"weight_map": {"a": "model.safetensors"}}, "says that model.safetensors holds 'a', and it does not"),
        ({}, "has no weight_map"),
    ],
)
def test_an_index_that_lies_is_refused(saved: Path, index: dict, words: str) -> None:
    (saved / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=words):
        headway.load(saved)


def test_nothing_is_overwritten_and_nothing_half_written(saved: Path, tmp_path: Path) -> None:
    model = headway.load(saved).model
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ValueError, match="is not empty"):
        headway.save(model, saved)
    model.config = model.config.model_copy(update={"family": "llama"})
    with pytest.raises((ValueError, AssertionError, AttributeError)):
        headway.save(model, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    model.config = TINY
    headway.save(model, saved, overwrite=True)
    assert headway.load(saved).model.config == TINY
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="mine holds no model, and is not overwritten"):
        headway.save(model, tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_what_is_not_of_the_model_is_not_overwritten(saved: Path, tmp_path: Path) -> None:
    model = fresh(TINY)
    (saved / "notes.txt").write_text("years of work")
    with pytest.raises(ValueError, match=r"model holds notes\.txt, which is no file of a model"):
        headway.save(model, saved, overwrite=True)
    (saved / "notes.txt").unlink()
    (tmp_path / "link").symlink_to(saved)
    with pytest.raises(ValueError, match="link is a symbolic link"):
        headway.save(model, tmp_path / "link", overwrite=True)
    with pytest.raises(ValueError, match="an empty path is no place for a model"):
        headway.save(model, "")
    for name in OWN_FILES:
        (saved / name).parent.mkdir(exist_ok=True)
        (saved / name).touch()
    headway.save(model, saved, overwrite=True)
    assert not any((saved / name).exists() for name in ("merges.txt", "1_Pooling", "model-00001-of-00002.safetensors"))


OWN_FILES = (
    "config.json", "generation_config.json", "model-00001-of-00002.safetensors", "model.safetensors.index.json",
    "tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt", "special_tokens_map.json",
    "preprocessor_config.json", "README.md", "modules.json", "sentence_bert_config.json",
    "config_sentence_transformers.json", "source.spm", ".gitattributes", "1_Pooling/config.json",
    "2_Dense/model.safetensors",
)  # fmt: skip


def test_only_models_that_decode_say_how(saved: Path, tmp_path: Path) -> None:
    assert (saved / "generation_config.json").exists()
    encoder = bert(width=6, heads=2, layers=2, hidden=7, vocabulary=19, length=13, types=3)
    encoder = encoder.model_copy(update={"special": Special(begin=2, end=(3,), pad=1)})
    for name, config in (("bert", encoder), ("sentence", SentenceConfig(encoder=encoder, limit=11))):
        headway.save(fresh(config), tmp_path / name)
        assert not (tmp_path / name / "generation_config.json").exists()
        assert headway.load(tmp_path / name).model.config == config


def test_others_may_read_the_weights_as_they_may_read_any_file(saved: Path) -> None:
    modes = {path.stat().st_mode for path in saved.iterdir()}
    assert len(modes) == 1


# Each load in a process of its own, forked from one that has imported all.
MEASURE = """
import os, sys, headway, torch
from headway.hub.store import Store
def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
headway.load(sys.argv[2], dtype=torch.float32)   # everything imported, every pool warm
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
peak, before, dtype = 0, anonymous(), torch.float32 if child else torch.bfloat16
hub = sys.modules["headway.hub.load"]
nonfinite = hub.nonfinite  # called for every tensor that becomes another dtype
def watched(tensor):
    global peak
    peak = max(peak, anonymous())
    return nonfinite(tensor)
hub.nonfinite = watched
model, _, receipt = headway.load(sys.argv[1], dtype=dtype)
weights = sum(p.nbytes for p in model.parameters())
print(dtype, (max(peak, anonymous()) - before) / weights, flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_a_load_takes_no_more_memory_than_its_weights(saved: Path, tmp_path: Path) -> None:
    """Anonymous memory at most 1.2 x the weights in the dtype asked; the file itself is mapped."""
    found = _anonymous(gpt2(width=512, layers=8, heads=8).replace(vocabulary=5003), tmp_path / "larger", saved)
    assert 0.9 < found["torch.bfloat16"] <= 1.2, found
    assert found["torch.float32"] < 0.05, found  # its linear maps are transposed in the file, and stay there


def test_weights_stay_in_the_mapped_file(saved: Path, tmp_path: Path) -> None:
    """Of a Llama only queries, keys and values are copied, which are one parameter here."""
    config = llama(width=512, layers=8, heads=8, hidden=1536, vocabulary=5003, length=64)
    found = _anonymous(config, tmp_path / "larger", saved)
    assert found["torch.float32"] < 0.4 and 0.9 < found["torch.bfloat16"] <= 1.2, found


def _anonymous(config: Any, place: Path, saved: Path) -> dict[str, float]:
    headway.save(fresh(config), place)
    command = [sys.executable, "-c", MEASURE, str(place), str(saved)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    return {name: float(ratio) for name, ratio in map(str.split, done.stdout.splitlines())}


DECODE = """
import os, sys, time, torch, headway
def wait_for(path):
    until = time.monotonic() + 60
    while not os.path.exists(path):
        assert time.monotonic() < until, path
        time.sleep(0.005)
def of_file(name):
    # What this process has of the weights' mapping, and how much of that it does not share, in kB.
    total = {"Rss": 0, "Pss": 0, "Private_Dirty": 0}
    inside = False
    for line in open("/proc/self/smaps"):
        key, *rest = line.split()
        if not key.endswith(":"):
            inside = line.rstrip().endswith(name)
        elif inside and key[:-1] in total:
            total[key[:-1]] += int(rest[0])
    return total
def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))
before = anonymous()
model = headway.load(sys.argv[1]).model
headway.generate(model, [[5, 7, 11]], max_new_tokens=12, min_new_tokens=12)
print("ready", flush=True)
open(sys.argv[2] + ".ready", "w").close()
wait_for(sys.argv[3] + ".ready")
found = of_file("model.safetensors")
open(sys.argv[2] + ".done", "w").close()
wait_for(sys.argv[3] + ".done")
weights = sum(p.nbytes for p in model.parameters()) / 1024
print(weights, anonymous() - before, found["Rss"], found["Pss"], found["Private_Dirty"])
"""


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="reads /proc")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_two_processes_that_decode_share_one_copy_of_the_weights(
    processes: Processes, tmp_path: Path, dtype: torch.dtype
) -> None:
    config = llama(width=512, layers=4, heads=8, kv_heads=2, hidden=2048, vocabulary=8009, length=64)
    headway.save(fresh(config).to(dtype), tmp_path / "model")
    pair = [str(tmp_path / name) for name in ("one", "two")]
    children = [processes.start(DECODE, str(tmp_path / "model"), mine, other) for mine, other in (pair, pair[::-1])]
    for child in children:
        assert child.wait() == 0, child.stderr
        weights, anonymous, mapped, share, written = map(float, child.stdout.split()[1:])
        assert mapped > 0.8 * weights and written == 0
        assert share < 0.6 * mapped  # each page counts for half in either process
        assert anonymous < 0.6 * weights  # queries, keys and values; caches; buffers: no second copy


def test_what_is_written_into_a_loaded_model_stays_out_of_its_file(tmp_path: Path) -> None:
    headway.save(fresh(llama(width=64, layers=1, heads=2, hidden=64, vocabulary=97, length=32)), tmp_path / "model")
    before = (tmp_path / "model" / "model.safetensors").read_bytes()
    model, again = (headway.load(tmp_path / "model").model for _ in range(2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == before
    assert not any(torch.equal(x, y) for x, y in zip(model.parameters(), again.parameters(), strict=True))


def test_a_hash_that_nothing_is_compared_with_is_computed_when_it_is_asked_for(saved: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    shutil.copytree(saved, theirs)
    tensors = load_file(saved / "model.safetensors")
    save_file(tensors, theirs / "model.safetensors")  # no hash noted
    first, second = headway.load(theirs).receipt, headway.load(theirs).receipt
    assert first.weights_hash == headway.load(saved).receipt.weights_hash
    save_file({name: tensor + 1 for name, tensor in tensors.items()}, theirs / "model.safetensors")
    assert first.weights_hash == headway.load(saved).receipt.weights_hash
    with pytest.raises(ValueError, match="have changed since they were loaded"):
        _ = second.hash
