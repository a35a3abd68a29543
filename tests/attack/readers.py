"""Every reader of the package, the files that it reads, and what a reading that was not refused has to be.

A reader gets a directory whose files were damaged. It returns what it read, or raises ValueError (or the operating
system's error about a path) with one sentence. `check` gets what was read and says what is wrong with it: a weight
that differs although the file has our hash, text that is not in the file.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

import headway
from headway.app.report import report
from headway.app.resumable_file import ResumableFile
from headway.app.run import read_run
from headway.app.run_hashes import verify_run
from headway.app.runs import as_json, compared, document, find_runs
from headway.app.settings import resolve as settings
from headway.config.kinds import read_model
from headway.config.read_file import read_json, read_text
from headway.config.run_files import RunFiles
from headway.config.train import DataConfig
from headway.config.vision import Images
from headway.data.image import read_pixels
from headway.data.image_dataset import read_images
from headway.data.instructions import conversations
from headway.data.shards import Shards
from headway.data.source import documents, records
from headway.data.tokenizer import Tokenizer
from headway.hub.target import directory
from headway.look.pattern.rules import read_table
from headway.models import on_meta
from headway.training import checkpoint
from headway.training.distributed import World
from tests.attack.seeds import LINES, SAID

Check = Callable[[Path, Any], str | None]


def _anything(place: Path, found: Any) -> None:
    return None


@dataclass(frozen=True)
class Reader:
    """`seed`: the directory that is copied; `files`: those of it that are damaged."""

    seed: str
    files: tuple[str, ...]
    read: Callable[[Path], Any]
    check: Check = _anything
    finish: tuple[Any, ...] = ()  # edits that may follow the damage, as a new stamp


def load(place: Path, **options: Any) -> Any:
    """A model is loaded, and does what it is for."""
    loaded = headway.load(place, **options)
    loaded.receipt.__str__()
    with torch.no_grad():
        USES[type(loaded.model).__name__](loaded)
    return loaded


def _answer(loaded: Any) -> None:
    if loaded.tokenizer is not None:
        headway.generate(loaded.model, "the cat", max_new_tokens=2)


def _classify(loaded: Any) -> None:
    if loaded.tokenizer is not None and loaded.model.config.classes:
        headway.classify(loaded.model, ["the cat", ""])


def _look_at(loaded: Any) -> None:
    seeds = Path(loaded.receipt.path).parent.parent / "seeds"
    if loaded.model.config.classes:
        headway.classify(loaded.model, [seeds / "data" / "pictures" / "cat" / "one.png"])


USES: dict[str, Callable[[Any], Any]] = {
    "Language": _answer,
    "Seq2Seq": _answer,
    "Masked": _classify,
    "SentenceEncoder": lambda loaded: None if loaded.tokenizer is None else headway.embed(loaded.model, "the cat"),
    "Vision": _look_at,
    "DaViT": _look_at,
    "Clip": lambda loaded: None,  # whose files have no tokenizer
}


def same_weights(place: Path, found: Any) -> str | None:
    """With our hash beside them, weights are those that were saved, or are refused."""
    if not _hashed(place):
        return None
    whole = _whole(place.parent.parent / "seeds" / place.name)
    for name, weight in found.model.state_dict().items():
        if name not in whole or not torch.equal(weight, whole[name]):
            return f"{name} is not what was saved"
    return None


@cache
def _whole(place: Path) -> dict[str, torch.Tensor]:
    return headway.load(place).model.state_dict()


def _hashed(place: Path) -> bool:
    return any(b'"headway_hash":' in file.read_bytes() for file in place.glob("*.safetensors*"))


def tokenize(place: Path) -> Any:
    """A tokenizer of a directory, and a text there and back."""
    found = Tokenizer.read(place)
    if found is not None:
        ids = found.encode("the cat é 日 \t x")
        found.encode_all(["", "a dog"])
        assert isinstance(found.decode(ids), str)
        assert all(isinstance(one, int | None) for one in (found.begin, found.end, found.pad, found.mask))
    return found


def outline(place: Path) -> Any:
    """What `info` and `cost` read: the configuration and the headers."""
    return on_meta(directory(place).config)


def _documents(name: str, **options: Any) -> Callable[[Path], Any]:
    return lambda place: "".join(one.text + " " * one.ends for one in documents([str(place / name)], **options))


def same_text(name: str) -> Check:
    def check(place: Path, found: str) -> str | None:
        said = (place / name).read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        return None if found.split() == said.split() else "the text is not that of the file"

    return check


def _records(name: str, columns: tuple[str, ...]) -> Callable[[Path], Any]:
    return lambda place: [row.fields for row in records([str(place / name)], columns=columns)]


def same_rows(place: Path, found: list[dict[str, str]]) -> str | None:
    rows = [json.loads(line) for line in (place / "rows.jsonl").read_bytes().splitlines() if line.strip()]
    for row, fields in zip(rows, found, strict=True):
        said = {name: row[name] if isinstance(row[name], str) else json.dumps(row[name]) for name in fields}
        if said != fields:
            return f"{fields} is not {said}"
    return None


def run_report(place: Path) -> Any:
    """A run is read, listed, compared and drawn."""
    run = read_run(place)
    json.dumps([as_json(one) for one in find_runs([place])], default=str)
    compared([run])
    document([run])
    return report(place)


def resume(place: Path) -> dict[str, torch.Tensor]:
    """A checkpoint is read into the tensors that it was written from."""
    seed = place.parent.parent / "seeds" / place.name
    step = "checkpoints/step-00000002"
    into = {name: torch.full_like(one, 7) for name, one in _tensors(seed / step).items()}
    checkpoint.load(place / step, into, World())
    checkpoint.newest(place / "checkpoints", World())
    return into


@cache
def _tensors(step: Path) -> dict[str, torch.Tensor]:
    """The tensors of a whole checkpoint, read without the package."""
    from safetensors.torch import load_file

    (part,) = step.glob("part-*.safetensors")
    return load_file(part)


def same_state(place: Path, found: dict[str, torch.Tensor]) -> str | None:
    """A checkpoint that was not refused gives what was saved, whatever its manifest says."""
    whole = _tensors(place.parent.parent / "seeds" / place.name / "checkpoints/step-00000002")
    wrong = [name for name, one in found.items() if not torch.equal(one, whole[name])]
    return f"{wrong[0]} is not what was saved ({len(wrong)} are not)" if wrong else None


def tokens(place: Path) -> list[int]:
    """Shards are opened, split and read."""
    found = Shards.open(place / "data" / "train")
    found.split(0.1)
    assert len(found.documents) >= 0 and found.bytes >= 0
    return found.read(0, found.total).tolist()


def add_adapter(place: Path) -> Any:
    """An adapter is added to a whole model."""
    return load(place.parent.parent / "seeds" / "llama", adapter=place)


def chat(place: Path) -> Any:
    """A conversation becomes a text by the template of the model."""
    found = Tokenizer.read(place)
    return (
        None
        if found is None or found.chat_template is None
        else found.apply_chat_template([{"role": "user", "content": LINES[0]}])
    )


def form(place: Path, **given: Any) -> Any:
    """An answer of a form: the form becomes an automaton over the model's tokens, and is walked a few steps."""
    return headway.generate(_writer(place.parent.parent / "seeds" / "own"), "the cat", max_new_tokens=3, **given)


@cache
def _writer(place: Path) -> Any:
    return headway.load(place).model


def begun(place: Path) -> tuple[int | None, bytes, dict[str, int]]:
    """A file that was begun is gone on with: (steps that are done, what they wrote, what was counted)."""
    with ResumableFile(place / "out.npy", {"model": "m"}, overwrite=False) as file:
        done = file.done
    return done, (place / "out.npy.part").read_bytes(), file.notes


def same_part(place: Path, found: tuple[int | None, bytes, dict[str, int]]) -> str | None:
    """Nothing is taken for done but what was written."""
    whole = {1: b"head0123456789", 2: b"head0123456789abcdefghij"}
    done, content, _ = found
    return None if done is None or whole.get(done) == content else f"{done} steps with {content[:40]!r}"


def verify(place: Path) -> Any:
    """What `train --resume` looks at before it trains."""
    run = RunFiles(place)
    left = verify_run(run, settings({}, file=run.config), lambda line: None)
    newest_of = checkpoint.newest(place / "checkpoints", World())
    return left, newest_of, Shards.open(place / "data" / "train")


def pictures(name: str) -> Callable[[Path], Any]:
    def read(place: Path) -> Any:
        found = read_images([str(place / name)], cache=place / "cache")
        return found.labels, found.arrays[0].pixels[:1].sum()

    return read


def picture(place: Path) -> Any:
    found = sorted((place / "pictures").glob("*/*"))
    return [read_pixels(path, Images(), size=(8, 8), channels=3) for path in found]


DECODING = "generation_config.json"
TOKENS = ("tokenizer.json", "tokenizer_config.json")
WEIGHTS = ("model.safetensors",)
MANIFEST = "checkpoints/step-00000002/manifest.json"
CHECKPOINT = (MANIFEST, MANIFEST, MANIFEST, "checkpoints/step-00000002/part-0000-of-0001.safetensors")
STAMP = ((MANIFEST, "stamp"),)
SHARDS = tuple(f"data/train/{name}" for name in ("manifest.json", "shard-00000.npy", "documents.npy", "marks.npy"))
RUN = ("metrics.jsonl", "metrics.jsonl", "config.yaml", "machine.json", "cost.json", "heads.json", MANIFEST)
RESUMED = ("hashes.json", "hashes.json", "config.yaml", "checkpoints/best.json", "data/train/manifest.json")

READERS: dict[str, Reader] = {
    **{
        f"load {name}": Reader(name, ("config.json", "config.json", *extra, *WEIGHTS), load, same_weights)
        for name, extra in {
            "gpt2": ("vocab.json", "merges.txt", DECODING),
            "gpt2-hashed": TOKENS,
            "llama": TOKENS,
            "mistral": (DECODING,),
            "qwen2": (),
            "bert": ("vocab.txt", "tokenizer_config.json"),
            "t5": (*TOKENS, DECODING),
            "bart": (*TOKENS, DECODING),
            "marian": ("source.spm", "vocab.json", DECODING),
            "own": (*TOKENS, "hashes.json"),
            "int4": (),
        }.items()
    },
    "load weights": Reader("gpt2-hashed", WEIGHTS, load, same_weights),
    "load own weights": Reader("own", WEIGHTS, load, same_weights),
    "load shards": Reader(
        "gpt2-shards",
        ("model.safetensors.index.json", "model.safetensors.index.json", "model-00003-of-00007.safetensors"),
        load,
        same_weights,
    ),
    "load sentence": Reader(
        "sentence",
        (
            "modules.json",
            "1_Pooling/config.json",
            "2_Dense/config.json",
            "sentence_bert_config.json",
            "config_sentence_transformers.json",
            "2_Dense/model.safetensors",
            "config.json",
            *TOKENS,
        ),
        load,
    ),
    "load gguf": Reader("gguf", ("model.gguf",), lambda place: load(place / "model.gguf")),
    "load vit": Reader("vit", ("config.json", "preprocessor_config.json", *WEIGHTS), load),
    "load davit": Reader("davit", ("config.json", *WEIGHTS), load),
    **{
        f"outline {name}": Reader(name, ("config.json",), outline)
        for name in ("gpt2", "llama", "mistral", "qwen2", "bert", "t5", "bart", "marian", "vit", "davit", "own", *SAID)
    },
    **{f"load {name}": Reader(name, ("config.json", "config.json", *WEIGHTS), load) for name in SAID},
    "load adapter": Reader("adapter", ("adapter_config.json", "adapter_model.safetensors"), add_adapter),
    "tokenizer.json": Reader("bart", TOKENS, tokenize),
    "tokenizer.json of pieces": Reader("sentence", TOKENS, tokenize),
    "tokenizer.json unigram": Reader("t5", TOKENS, tokenize),
    "vocab.json": Reader("gpt2", ("vocab.json", "merges.txt"), tokenize),
    "vocab.txt": Reader("bert", ("vocab.txt", "tokenizer_config.json"), tokenize),
    "source.spm": Reader("marian", ("source.spm", "vocab.json"), tokenize),
    "chat template": Reader("llama", ("tokenizer_config.json",), chat),
    "config": Reader("own", ("config.json",), lambda place: read_model(str(place / "config.json"))),
    "run": Reader("run", RUN, run_report),
    "run to resume": Reader("run", RESUMED, verify),
    "checkpoint": Reader("run", CHECKPOINT, resume, same_state, STAMP),
    "tokens": Reader("run", SHARDS, tokens),
    **{
        f"settings {kind}": Reader(
            "data", (f"train.{kind}",), lambda place, kind=kind: settings({}, file=place / f"train.{kind}")
        )
        for kind in ("yaml", "json", "toml")
    },
    "text": Reader("data", ("book.txt",), _documents("book.txt"), same_text("book.txt")),
    "text by line": Reader("data", ("book.txt",), _documents("book.txt", document="line"), same_text("book.txt")),
    "text packed": Reader("data", ("packed.txt",), _documents("packed.txt")),
    "csv": Reader("data", ("rows.csv",), _records("rows.csv", ("text", "label"))),
    "tsv": Reader("data", ("rows.tsv",), _records("rows.tsv", ("source", "target"))),
    "jsonl": Reader("data", ("rows.jsonl",), _records("rows.jsonl", ("text", "label")), same_rows),
    "conversations": Reader(
        "data", ("talk.jsonl",), lambda place: list(conversations(DataConfig(), [str(place / "talk.jsonl")]))
    ),
    "schema": Reader("data", ("schema.json",), lambda place: form(place, json_schema=read_json(place / "schema.json"))),
    "pattern": Reader("data", ("pattern.txt",), lambda place: form(place, regex=read_text(place / "pattern.txt"))),
    "part": Reader("part", ("out.npy.part", "out.npy.progress", "out.npy.progress"), begun, same_part),
    "pairs": Reader("data", ("twins.tsv",), _records("twins.tsv", ("first", "second"))),
    "npz": Reader("data", ("digits.npz",), pictures("digits.npz")),
    "npy": Reader("data", ("grey.npy", "grey-labels.npy"), pictures("grey.npy")),
    "idx": Reader(
        "data", ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"), pictures("train-images-idx3-ubyte.gz")
    ),
    "folder": Reader("data", ("pictures/cat/one.png", "pictures/dog/one.gif"), pictures("pictures")),
    "pictures": Reader(
        "data",
        tuple(f"pictures/{name}" for name in ("cat/one.png", "cat/one.bmp", "dog/one.jpg", "dog/one.gif")),
        picture,
    ),
    "table": Reader("data", ("table.txt",), lambda place: read_table(place / "table.txt")),
}
