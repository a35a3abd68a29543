"""`headway train` on a model that is there: adapters, frozen parts, and what can be done with the result."""

import json
import random
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import headway
from headway.cli import main
from headway.hub.parts import parts_of
from tests.cli.test_train import WORDS, trained

QUICK = ["--steps", "6", "--batch", "4", "--length", "8", "--save-every", "2", "--evaluate-every", "3",
         "--samples", "1", "--optim.rate", "0.01", "--schedule.warmup", "0"]  # fmt: skip
LORA = ["--lora.rank", "3", "--lora.on", "query,value,down", "--lora.dropout", "0.1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text, and a small Llama that has read some of it."""
    place, chance = tmp_path_factory.mktemp("finetune"), random.Random(0)
    (place / "book.txt").write_text(" ".join(chance.choices(WORDS, k=700)))
    headway.train(
        None, place / "book.txt", out=place / "base", steps=3, tokenizer="character", architecture="llama", layers=2,
        width=18, heads=3, kv_heads=1, length=24, batch=4, samples=0,
    )  # fmt: skip
    return place


@pytest.fixture(scope="module")
def run(place: Path) -> Path:
    """A run of adapters from the command line."""
    book, base = str(place / "book.txt"), str(place / "base")
    assert main(["train", book, "--model.start", base, *QUICK, *LORA, "--out", str(place / "run")]) == 0
    return place / "run"


class TestLora:
    def test_the_run_is_an_adapter_in_the_layout_of_peft(self, run: Path) -> None:
        files = {one.name for one in (run / "model").iterdir()}
        assert files == {"adapter_config.json", "adapter_model.safetensors", "hashes.json", "tokenizer.json",
                         "tokenizer_config.json"}  # fmt: skip
        tensors = load_file(run / "model" / "adapter_model.safetensors")
        assert len(tensors) == 2 * 3 * 2
        assert all(tensor.abs().max() > 0 for tensor in tensors.values())
        said = json.loads((run / "model" / "adapter_config.json").read_text())
        assert said["base_model_name_or_path"] == str((run.parent / "base").resolve())
        assert said["lora_dropout"] == 0.1

    def test_a_checkpoint_holds_the_adapters_alone(self, run: Path) -> None:
        kept = load_file(run / "checkpoints" / "step-00000006" / "part-0000-of-0001.safetensors")
        assert kept and all(".adapters." in name for name in kept)

    def test_generated_merged_and_switched(self, place: Path, run: Path, capsys, tmp_path: Path) -> None:
        def written(*arguments: object) -> str:
            assert main(["generate", *map(str, arguments), "--prompt", "the old", "--max-new-tokens", "9"]) == 0
            return capsys.readouterr().out

        assert main(["convert", str(run), str(tmp_path / "merged")]) == 2
        assert "is an adapter: --merge writes" in capsys.readouterr().err
        assert main(["convert", str(run), str(tmp_path / "merged"), "--merge"]) == 0
        merged, base = headway.load(tmp_path / "merged"), headway.load(place / "base")
        tuned = headway.load(place / "base", adapter=run)
        assert tuned.receipt.hash == merged.receipt.hash != base.receipt.hash
        assert "with the adapter" in str(tuned.receipt)
        changed = {n for n, part in parts_of(tuned.model).items() if not torch.equal(part, parts_of(base.model)[n])}
        assert changed == {
            f"stack.blocks.{i}.{name}.weight" for i in (0, 1)
            for name in ("attention.query", "attention.value", "feedforward.down")
        }  # fmt: skip
        texts = [written(run), written(place / "base", "--adapter", run), written(tmp_path / "merged")]
        assert len(set(texts)) == 1
        assert main(["convert", str(place / "base"), str(tmp_path / "other"), "--merge"]) == 2
        assert "is no adapter, and there is nothing to merge" in capsys.readouterr().err
        assert main(["info", str(run)]) == 0 and main(["eval", str(run), str(place / "book.txt")]) == 0

    def test_adapters_are_switched_on_one_model_that_comes_back_to_the_bit(self, place, run, tmp_path, capsys) -> None:
        shutil.copytree(run / "model", tmp_path / "strong")
        said = json.loads((tmp_path / "strong" / "adapter_config.json").read_text())
        (tmp_path / "strong" / "adapter_config.json").write_text(json.dumps({**said, "lora_alpha": 900.0}))
        (tmp_path / "strong" / "hashes.json").unlink()
        model, base = headway.load(place / "base").model, headway.load(place / "base").model
        for adapter in (run, tmp_path / "strong", run):
            assert "with the adapter" in str(headway.switch_adapter(model, adapter))
            wanted = parts_of(headway.load(place / "base", adapter=adapter).model)
            assert all(torch.equal(part, wanted[name]) for name, part in parts_of(model).items())
        found = load_file(tmp_path / "strong" / "adapter_model.safetensors")
        save_file({name: x[:, :-1].contiguous() for name, x in found.items()},
                  tmp_path / "strong" / "adapter_model.safetensors")  # fmt: skip
        headway.switch_adapter(model, None)
        with pytest.raises(ValueError, match="is of a map"):
            headway.switch_adapter(model, tmp_path / "strong")
        assert all(torch.equal(part, parts_of(base)[name]) for name, part in parts_of(model).items())
        shutil.copy(run / "model" / "adapter_model.safetensors", tmp_path / "strong" / "adapter_model.safetensors")
        given = ["generate", str(place / "base"), "--prompt", "the old", "--max-new-tokens", "9", "--adapter", str(run)]
        assert main([*given, "--adapter", str(tmp_path / "strong"), "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert [row["adapter"] for row in rows] == [str(run), str(tmp_path / "strong")]
        assert main(given) == 0
        assert capsys.readouterr().out == f"{rows[0]['text']}\n" != f"{rows[1]['text']}\n"

    def test_from_python_and_from_yaml(self, place: Path, tmp_path: Path, capsys) -> None:
        options = dict(steps=2, batch=2, length=8, samples=0, lora={"rank": 2, "on": "key,out"})
        model = headway.load(place / "base").model
        found = headway.train(model, place / "book.txt", out=tmp_path / "run", **options)
        assert found.model.config.stack == model.config.stack
        said = json.loads((tmp_path / "run" / "model" / "adapter_config.json").read_text())
        assert said["target_modules"] == ["k_proj", "o_proj"]
        file = tmp_path / "settings.yaml"
        file.write_text(f'data: {{train: [{place / "book.txt"}]}}\nlora:\n  rank: 2\n  "on": [key]\n')
        assert main(["train", "--config", str(file), "--print-config"]) == 0
        assert yaml.safe_load(capsys.readouterr().out)["lora"]["on"] == ["key"]

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--lora.rank", "2"], "name it with model.start"),
            (["--lora.alpha", "3"], "lora.alpha is of adapters, and there are none"),
            (["--model.start", "BASE", "--lora.rank", "2", "--freeze", "embeddings"], "leave freeze embeddings out"),
            (
                ["--model.start", "BASE", "--lora.rank", "2", "--task", "classify"],
                "tasks language, instruct, dpo, seq2seq, not cla",
            ),
            (["--model.start", "BASE", "--lora.rank", "2", "--optim.kind", "muon"], "trained by adamw, not by muon"),
            (["--model.start", "RUN", "--lora.rank", "2"], "is an adapter already"),
            (["--model.start", "BASE", "--freeze", "layers:1-2"], "freeze layers:1-2: the layers are 0 to 1"),
            (["--model.start", "BASE", "--freeze", "head"], "freeze takes embeddings, layers:0-3"),
            (["--model.start", "BASE", "--freeze", "decoder.layers:0"], "does not have these layers; it has layers"),
        ],
    )
    def test_what_would_do_nothing_is_refused(self, place, run, capsys, tmp_path, arguments, sentence) -> None:
        words = {"BASE": str(place / "base"), "RUN": str(run)}
        given = [words.get(one, one) for one in arguments]
        assert main(["train", str(place / "book.txt"), *given, "--out", str(tmp_path / "run")]) == 2
        assert sentence in capsys.readouterr().err


class TestFrozen:
    def test_frozen_parts_stay_and_the_others_move(self, place: Path, tmp_path: Path, capsys) -> None:
        arguments = [place / "book.txt", "--model.start", place / "base", *QUICK, "--freeze", "embeddings,layers:0"]
        trained(capsys, *arguments, "--out", tmp_path / "run")
        before, after = (parts_of(headway.load(one).model) for one in (place / "base", tmp_path / "run"))
        moved = {name for name in before if not torch.equal(before[name], after[name])}
        assert moved == {name for name in before if name.startswith(("stack.blocks.1", "stack.norm"))}
        kept = load_file(tmp_path / "run" / "checkpoints" / "step-00000006" / "part-0000-of-0001.safetensors")
        assert not [name for name in kept if "blocks.0" in name or "tokens" in name]


class TestNegatives:
    def test_hard_negatives_train_an_encoder_and_are_measured(self, tmp_path: Path, capsys) -> None:
        chance, rows = random.Random(2), []
        for number in range(40):
            anchor, other = chance.sample(WORDS, 2)
            rows.append({"anchor": f"{anchor} {number}", "positive": f"the {anchor}", "wrong": [f"the {other}"]})
        file = tmp_path / "pairs.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        columns = ["--data.first", "anchor", "--data.second", "positive"]
        sizes = ["--model.width", "12", "--model.layers", "1", "--model.heads", "2"]
        again = [*columns, "--task", "embed", *sizes, *QUICK, "--data.negative", "wrong"]
        assert main(["train", str(file), *again, "--out", str(tmp_path / "run")]) == 0
        assert "pairs with 36 hard negatives, 4 held out" in capsys.readouterr().err
        assert main(["eval", str(tmp_path / "run"), str(file), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert 0 < found["recall_at_1"] <= found["recall_at_10"] <= 1
        assert "and negatives" in found["notes"][1]
        assert main(["train", str(file), *again[:-1], "worse", "--out", str(tmp_path / "no")]) == 2
        assert "has no column 'worse'; it has 'anchor', 'positive', 'wrong'" in capsys.readouterr().err


class TestSecondModel:
    """Preferences, and learning from a teacher."""

    def preferences(self, place: Path) -> Path:
        chance = random.Random(3)
        rows = [dict(zip(("prompt", "chosen", "rejected"), chance.sample(WORDS, 3), strict=True)) for _ in range(24)]
        (place / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return place / "pairs.jsonl"

    @pytest.mark.parametrize("adapters", [[], ["--lora.rank", "2"]])
    def test_preferences_are_learnt_and_resumed_to_the_bit(self, place: Path, tmp_path: Path, capsys, adapters) -> None:
        given = [self.preferences(tmp_path), "--task", "dpo", "--model.start", place / "base", "--dpo.beta", "0.5",
                 "--length", "24", "--data.cut", *QUICK[2:4], *QUICK[6:], *adapters,
                 "--schedule.kind", "constant"]  # fmt: skip
        trained(capsys, *given, "--steps", "4", "--out", tmp_path / "whole")
        trained(capsys, *given, "--steps", "2", "--out", tmp_path / "parts")
        trained(capsys, "--resume", "--out", tmp_path / "parts", "--steps", "4")
        name = "checkpoints/step-00000004/part-0000-of-0001.safetensors"
        whole, parts = (load_file(tmp_path / run / name) for run in ("whole", "parts"))
        assert whole.keys() == parts.keys() and all(torch.equal(whole[name], parts[name]) for name in whole)
        rows = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
        assert 0 <= next(r for r in rows if r["kind"] == "validation")["accuracy"] <= 1

    def test_a_smaller_model_learns_from_a_teacher_with_its_tokenizer(
        self, place: Path, tmp_path: Path, capsys
    ) -> None:
        sizes = ["--model.architecture", "gpt", "--model.layers", "1", "--model.width", "8", "--model.heads", "2"]
        given = [place / "book.txt", *QUICK, *sizes, "--distil.teacher", place / "base", "--distil.temperature", "2"]
        trained(capsys, *given, "--out", tmp_path / "small")
        small, base = headway.load(tmp_path / "small"), headway.load(place / "base")
        assert small.tokenizer.engine.get_vocab() == base.tokenizer.engine.get_vocab()

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--task", "dpo"], "name it with model.start"),
            (["--dpo.beta", "0.3"], "dpo.beta is for the task dpo, not language"),
            (["--distil.weight", "0.3"], "distil.weight is of a teacher, and there is none"),
            (
                ["--distil.teacher", "BASE", "--task", "masked"],
                "distil.teacher is for the tasks language, instruct, not m",
            ),
            (["--distil.teacher", "BASE", "--tokenizer.path", "OTHER"], "tells 19 tokens apart and the model 257"),
            (["--distil.teacher", "BASE", "--length", "25"], "reads 24 tokens, and the length is 25"),
        ],
    )
    def test_what_would_do_nothing_or_does_not_fit(self, place, tmp_path, capsys, arguments, sentence) -> None:
        if "OTHER" in arguments:
            found = headway.data.tokenizer_training.train_tokenizer(
                ["abc " * 9], headway.config.train.TokenizerConfig(kind="byte"), task="language"
            )
            (tmp_path / "other").mkdir()
            found.save(tmp_path / "other")
        words = {"BASE": str(place / "base"), "OTHER": str(tmp_path / "other")}
        given = [words.get(one, one) for one in arguments]
        assert main(["train", str(place / "book.txt"), *given, "--out", str(tmp_path / "run")]) == 2
        assert sentence in capsys.readouterr().err


class TestInstruct:
    def test_answers_are_learnt_with_adapters(self, place: Path, tmp_path: Path, capsys) -> None:
        chance = random.Random(1)
        rows = [{"prompt": chance.choice(WORDS), "response": chance.choice(WORDS)} for _ in range(30)]
        file = tmp_path / "pairs.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        trained(
            capsys, file, "--task", "instruct", "--model.start", place / "base", *QUICK, "--lora.rank", "2",
            "--data.cut", "--out", tmp_path / "run",
        )  # fmt: skip
        said = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
        sample = next(row for row in said if row["kind"] == "sample")
        assert any(sample["prompt"] == row["prompt"] for row in rows) and "wanted" in sample
        assert all(row["accuracy"] >= 0 for row in said if row["kind"] == "validation")
