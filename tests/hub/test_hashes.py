"""What a directory says of itself is checked, and the same model is the same bytes."""

import hashlib
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import headway
from headway.cli import main
from headway.config import Special
from headway.config.train import TokenizerConfig, TrainConfig
from headway.data.tokenizer_training import train_tokenizer
from headway.hub.content_hash import content_hash
from headway.hub.receipt import nonfinite
from headway.native.build import switched_off
from headway.presets.gpt2 import gpt2
from headway.training.tasks.common import start_of
from tests.fresh import fresh
from tests.thorough import THOROUGH

TINY = gpt2(width=22, layers=2, heads=2).model_copy(update={"vocabulary": 53, "length": 19})

SAVE = """
import sys
import headway
headway.save(headway.build("gpt2", layers=2, width=22, heads=2, vocabulary=53, length=19, seed=3), sys.argv[1])
"""


def digests(directory: Path) -> dict[str, str]:
    """The hash of every file of a model; the card has the name of its directory."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != "README.md")
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_weights_are_the_same_bytes(tmp_path: Path) -> None:
    model = fresh(TINY)
    for number in range(20):
        headway.save(model, tmp_path / str(number), shard=10**9 if number % 2 else 10**4)
    for first in (0, 1):
        assert all(digests(tmp_path / str(n)) == digests(tmp_path / str(first)) for n in range(first, 20, 2))


def test_the_same_weights_are_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    seeds = range(20 if THOROUGH else 2)
    for first in range(0, len(seeds), 2):
        running = [
            subprocess.Popen([sys.executable, "-c", SAVE, str(tmp_path / str(seed))],
                             env={**os.environ, "PYTHONHASHSEED": str(seed), "OMP_NUM_THREADS": "1"})
            for seed in seeds[first : first + 2]
        ]  # fmt: skip
        assert [one.wait(120) for one in running] == [0] * len(running)
    assert all(digests(tmp_path / str(seed)) == digests(tmp_path / "0") for seed in seeds)


def saved(place: Path, **changed: object) -> Path:
    """A model with a tokenizer that was learnt from a few words."""
    tokenizer = train_tokenizer(["some words of a tale\n"] * 9, TokenizerConfig(kind="byte"), task="language")
    headway.save(fresh(TINY.model_copy(update={"vocabulary": tokenizer.size, **changed})), place, tokenizer=tokenizer)
    return place


def test_the_receipt_says_what_was_verified(tmp_path: Path) -> None:
    receipt = headway.load(saved(tmp_path / "m")).receipt
    assert {"weights", "config.json", "tokenizer.json"} <= set(receipt.verified) and receipt.unverified == ()
    assert "; verified by hash: weights, config.json" in str(receipt) and "nothing to verify" not in str(receipt)


def test_a_directory_without_hashes_is_loaded_and_it_is_said(tmp_path: Path) -> None:
    place = saved(tmp_path / "m")
    whole = headway.load(place).receipt
    (place / "hashes.json").unlink()
    save_file(load_file(place / "model.safetensors"), place / "model.safetensors", metadata={"format": "pt"})
    receipt = headway.load(place).receipt
    assert receipt.verified == () and receipt.hash == whole.hash
    assert {"weights", "config.json", "tokenizer.json"} <= set(receipt.unverified)
    assert "; nothing to verify by: weights, config.json" in str(receipt)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "generation_config.json"])
def test_a_changed_file_is_refused_and_the_way_out_works(tmp_path: Path, name: str) -> None:
    place = saved(tmp_path / "m", special=Special(end=(3,)))
    file = place / name
    text = file.read_text()
    file.write_text(text + "\n" if name == "tokenizer.json" else json.dumps(json.loads(text) | {"a note": 1}))
    with pytest.raises(ValueError, match=f"{name} is not what was saved, its hash has changed: put back .* or remove"):
        headway.load(place)
    if name != "config.json":
        file.unlink()
        with pytest.raises(ValueError, match=f"{name} was saved with the model and is missing"):
            headway.load(place)
        file.write_text("{}") if name != "tokenizer.json" else None
    (place / "hashes.json").unlink()
    headway.load(place)


def test_a_file_that_was_added_has_nothing_to_verify_by(tmp_path: Path) -> None:
    place = saved(tmp_path / "m")
    (place / "vocab.txt").write_text("word\n")
    assert headway.load(place).receipt.unverified == ("vocab.txt",)


def test_the_hash_is_of_the_configuration_and_the_tokenizer_too(tmp_path: Path) -> None:
    model = fresh(TINY)
    headway.save(model, tmp_path / "a")
    model.config = TINY.replace(special=Special(end=(7,)))
    headway.save(model, tmp_path / "b")
    byte = train_tokenizer(["words"], TokenizerConfig(kind="character"), task="language")
    headway.save(model, tmp_path / "c", tokenizer=byte)
    receipts = [headway.load(tmp_path / name).receipt for name in "abc"]
    assert len({one.weights_hash for one in receipts}) == 1 and len({one.hash for one in receipts}) == 3


def spoil(place: Path, count: int | None) -> None:
    """So many numbers of one tensor become NaN, or all numbers of all tensors; as whoever wrote them so would."""
    tensors = load_file(place / "model.safetensors")
    for name, tensor in tensors.items():
        if count is None:
            tensor.fill_(torch.nan)
        elif name.endswith("wte.weight"):
            tensor.view(-1)[:count] = torch.tensor([torch.nan, torch.inf, -torch.inf])[torch.arange(count) % 3]
    save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})


def test_weights_that_are_not_finite_are_said_at_load(tmp_path: Path) -> None:
    place = saved(tmp_path / "m")
    spoil(place, 5)
    with pytest.warns(UserWarning, match=r"m: not finite \(NaN or infinite\): 5 of [\d,]+ weights, tokens.weight 5$"):
        model, _, receipt = headway.load(place)
    assert receipt.nonfinite == (("tokens.weight", 5),) and receipt.warning in str(receipt)
    spoil(place, None)
    with pytest.warns(UserWarning, match=r"not finite .*and \d+ more tensors"):
        receipt = headway.load(place).receipt
    assert sum(count for _, count in receipt.nonfinite) == receipt.parameters == headway.models.parameters(model)


def test_numbers_that_a_dtype_cannot_hold_are_said_too(tmp_path: Path) -> None:
    place = saved(tmp_path / "m")
    tensors = load_file(place / "model.safetensors")
    tensors["transformer.wte.weight"][0, 0] = 1e30
    save_file(tensors, place / "model.safetensors", metadata={"format": "pt"})
    assert headway.load(place).receipt.warning == ""
    with pytest.warns(UserWarning, match=r"too large for float16: 1 of [\d,]+ weights, tokens.weight 1$"):
        receipt = headway.load(place, dtype="float16").receipt
    assert receipt.nonfinite == () and receipt.overflowed == (("tokens.weight", 1),)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_numbers_are_counted_in_every_dtype_and_layout(dtype: torch.dtype) -> None:
    x = torch.zeros(7, 11, dtype=dtype)
    assert nonfinite(x) == nonfinite(x[:0]) == nonfinite(torch.zeros(3, dtype=torch.int8)) == 0
    x[3, 5], x[4, 0], x[6, 10] = torch.nan, torch.inf, -torch.inf
    assert nonfinite(x) == nonfinite(x.T) == 3 and nonfinite(x[:, ::5]) == 3 and nonfinite(x[3, 5]) == 1


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_eval_and_convert_do_not_pass_them_on_in_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, text = saved(tmp_path / "m"), tmp_path / "tale.txt"
    spoil(place, None)
    text.write_text("some words of a tale\n" * 9)
    assert main(["convert", str(place), str(tmp_path / "n"), "--json"]) == 0
    said = capsys.readouterr()
    assert f"{tmp_path / 'n'}: written with weights that are not finite" in said.err
    assert json.loads(said.out)["nonfinite"]["tokens.weight"] > 0
    main(["eval", str(place), str(text), "--json"])
    assert "weights that are not finite" in json.loads(capsys.readouterr().out)["notes"][-1]


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("shard", [10**9, 10**4])
def test_a_flipped_bit_of_any_tensor_is_refused(tmp_path: Path, native: bool, shard: int) -> None:
    headway.save(fresh(TINY), tmp_path / "m", shard=shard)
    for file in sorted((tmp_path / "m").glob("*.safetensors")):
        size = file.stat().st_size
        for place in (size - 1, size - 1001, size // 2):
            flip(file, place)
            with (
                nullcontext() if native else switched_off(),
                pytest.raises(ValueError, match="are not those that were sa"),
            ):
                headway.load(tmp_path / "m")
            flip(file, place)
    assert headway.load(tmp_path / "m").receipt.verified


def note(place: Path, **changed: str | None) -> None:
    """The same tensors with other notes of their hashes."""
    file = place / "model.safetensors"
    with safe_open(file, framework="pt") as opened:
        notes = {**opened.metadata(), **changed}
    save_file(load_file(file), file, metadata={name: said for name, said in notes.items() if said is not None})


def test_each_of_the_two_hashes_is_compared(tmp_path: Path) -> None:
    headway.save(fresh(TINY), tmp_path / "m")
    whole = headway.load(tmp_path / "m").receipt
    for change in ({"headway_blake3": "0" * 64}, {"headway_hash": "0" * 64}, {"headway_hash": None}):
        headway.save(fresh(TINY), tmp_path / "m", overwrite=True)
        note(tmp_path / "m", **change)
        with pytest.raises(ValueError, match="are not those that were saved"):
            headway.load(tmp_path / "m")
    headway.save(fresh(TINY), tmp_path / "m", overwrite=True)
    note(tmp_path / "m", headway_blake3=None)  # as older versions wrote it
    assert headway.load(tmp_path / "m").receipt == replace(whole)
    note(tmp_path / "m", headway_hash="0" * 64)
    with pytest.raises(ValueError, match="are not those that were saved"):
        headway.load(tmp_path / "m")


def test_a_hash_that_was_noted_for_other_weights_is_not_passed_on(tmp_path: Path) -> None:
    """Whoever writes both hashes can make a load go through; the hash in the receipt is still that of the weights."""
    headway.save(fresh(TINY), tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    note(tmp_path / "m", headway_hash="0" * 64, headway_blake3=content_hash(load_file(file), "0" * 64))
    receipt = headway.load(tmp_path / "m").receipt
    with pytest.raises(ValueError, match="are not those that their hash was noted for"):
        _ = receipt.hash


def test_large_transposed_weights_stay_in_the_file_and_mean_the_same(tmp_path: Path) -> None:
    model = fresh(gpt2(width=384, layers=1, heads=6).model_copy(update={"vocabulary": 53, "length": 19}))
    headway.save(model, tmp_path / "m")
    again = headway.load(tmp_path / "m").model
    assert not again.stack.blocks[0].attention.qkv.weight.is_contiguous()
    assert again.stack.blocks[0].attention.out.weight.is_contiguous()  # small
    for (name, one), other in zip(model.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other), name
    tokens = torch.arange(11)[None]
    assert torch.allclose(model(tokens), again(tokens), atol=1e-5)
    assert [list(x.tokens) for x in headway.generate(again, [[3, 5]], max_new_tokens=7)] == [
        list(x.tokens) for x in headway.generate(model, [[3, 5]], max_new_tokens=7)
    ]
    headway.save(again, tmp_path / "n")
    assert digests(tmp_path / "n") == digests(tmp_path / "m")


def test_training_starts_from_parameters_in_one_piece(tmp_path: Path) -> None:
    headway.save(fresh(gpt2(width=384, layers=1, heads=6).model_copy(update={"vocabulary": 53})), tmp_path / "m")
    start = start_of(TrainConfig.model_validate({"task": "language", "model": {"start": str(tmp_path / "m")}}))
    assert start is not None and all(parameter.is_contiguous() for parameter in start.model.parameters())
