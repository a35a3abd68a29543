"""Commands that somebody may type: every verb with its own options, values that nobody means, files that are damaged.

Options are asked of the command line itself, so that a new one is tried without a line here.
"""

import random
import shlex
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, get_args

from headway.cli import VERBS, build
from tests.attack import edits
from tests.attack.seeds import TRAIN as SMALL

TRAIN = shlex.join(SMALL)

# Commands that work; gpt2 and the like are directories below the working one.
BASES: dict[str, list[str]] = {
    "train": [
        f"data/book.txt {TRAIN} --out new",
        f"data/rows.csv {TRAIN} --task classify --out new --data.cut",
        f"data/rows.tsv {TRAIN} --task seq2seq --out new --data.cut",
        "data/digits.npz --task images --steps 1 --batch 2 --out new --model.layers 1",
        f"--config data/train.yaml {TRAIN} --out new",
        "--out run --resume --steps 3",
        f"data/book.txt --dry-run {TRAIN}",
        "data/book.txt --model.start gpt2 --steps 1 --batch 2 --length 8 --out new",
        "data/book.txt --model.start llama --lora.rank 2 --steps 1 --batch 2 --length 8 --out new",
        "data/talk.jsonl --task instruct --model.start llama --steps 1 --batch 2 --length 64 --data.cut --out new",
    ],
    "plan": [
        "language data/book.txt --budget 1m",
    ],
    "eval": [
        "run data/book.txt",
        "bert data/rows.csv",
        "t5 data/rows.tsv --max-new-tokens 2",
    ],
    "runs": [
        "run",
        ".",
        ". --compare run run2",
        ". --html page.html",
    ],
    "mechanisms": [
        "--side 3 --width 4 --heads 1",
    ],
    "bench": [
        "attention --help",
    ],
    "cost": [
        "gpt2",
        "own",
        "bert-tiny",
        "preset:gpt2 --formula",
        "bert --length 8",
        "attacked:build",
    ],
    "audit": [
        "bert --quick --laws determinism",
        "gpt2 --health",
        "own --laws batch --quick",
        "run --health --data data/book.txt",
    ],
    "look": [
        "gpt2 'the cat' --out page.html",
        "bert 'a dog' --json",
        "--mechanism local --window 4 --length 24",
        "--softmax=-3,1,100",
        "vit --image data/pictures/cat/one.png --out page.html",
    ],
    "info": [
        "",
        "gpt2",
        "own",
        "int4",
        "gguf/model.gguf",
        "vit",
        "sentence",
        "run",
        "marian",
        "attacked:build",
    ],
    "convert": [
        "gpt2 new",
        "sentence new --dtype bfloat16",
        "own --out new",
        "gguf/model.gguf new",
        "llama new --weights int8",
        "vit new",
    ],
    "classify": [
        "bert data/book.txt",
        "vit data/pictures/cat/one.png",
        "davit data/pictures/dog/one.jpg",
    ],
    "embed": [
        "sentence data/book.txt -o new.npy",
        "sentence data/book.txt -o new.jsonl",
        "sentence",
        "clip data/pictures.txt --images -o new.npy",
    ],
    "generate": [
        "gpt2 --prompt 'the cat' --max-new-tokens 2",
        "run --prompt a --max-new-tokens 2",
        "int4 --prompt a --max-new-tokens 2",
        "gguf/model.gguf --prompt a --max-new-tokens 2",
        "llama --prompt a --beam 2 --max-new-tokens 2",
        "t5 --prompt a --max-new-tokens 2",
        "llama --adapter adapter --prompt a --max-new-tokens 2",
        "llama --messages data/talk.json --max-new-tokens 2",
        "own --prompt a --max-new-tokens 2 --json-schema data/schema.json",
        "own --prompt a --max-new-tokens 2 --regex '[a-c]+'",
        "gpt2 --prompt a --max-new-tokens 4 --draft gpt2",
    ],
    "translate": [
        "marian data/twins.tsv --max-new-tokens 2 --cut",
        "bart data/book.txt --max-new-tokens 2",
        "t5 data/book.txt --beam 2 --max-new-tokens 2",
    ],
}
WEIGHTS = {"train": 3, "plan": 1, "bench": 1, "audit": 2, "mechanisms": 1, "look": 2}  # the others 4: they are quick
NUMBERS = [
    "0",
    "-1",
    "1",
    "2",
    "3",
    "1e308",
    "-1e308",
    "nan",
    "inf",
    "-inf",
    "1e-320",
    "99999999999",
    "-99999999999",
    "9223372036854775808",
    "1" + "0" * 40,
    "1.5",
    "",
    "x",
    "0x10",
    "1_000",
    "٣",
    "--",
    "1,2",
    "[1]",
]
PATHS = [
    "",
    "-",
    ".",
    "..",
    "/",
    "/dev/null",
    "/dev/full",
    "missing",
    "missing/file",
    "run",
    "data",
    "gpt2/config.json",
    "data/digits.npz",
    "data/pictures",
    "x" * 300,
    "x/" * 3000,
    "a\nb",
    "a\tb",
    "\udcff",
    "~nobody/x",
    "*",
    "[",
    "data/*",
    "preset:gpt2",
    "preset:",
    "attacked:build",
    "attacked:fails",
    "attacked:nothing",
    "attacked:missing",
    "no.such:thing",
    ":",
    "os:",
    "data/book.txt",
    "data/rows.csv",
    "data/packed.txt",
    "new",
    "gpt2",
    "vit",
    "t5",
    "code/attacked.py",
]
WORDS = [
    "",
    "x",
    "auto",
    "text",
    "\udcff",
    "a\nb",
    "💥",
    "x" * 10000,
    "null",
    "{}",
    "[",
    "true",
    "softmax",
    "linear",
    "float32",
    "layers=1,2",
    "os:system",
    "%s",
    "{0}",
    "-h",
    "--help",
    "../x",
    "\x1b[31m",
]


@dataclass(frozen=True)
class Option:
    """An option of a verb: its names, and values that it takes."""

    names: tuple[str, ...]
    flag: bool
    choices: tuple[str, ...] = ()
    kinds: frozenset[str] = field(default_factory=frozenset)


@cache
def options(verb: str) -> tuple[Option, ...]:
    """The options that the command line knows."""
    found = build([verb])[verb].assemble_argument_collection()
    return tuple(
        Option(tuple(one.names), one.hint is bool, _choices(one.hint), frozenset(_kinds(one.hint)))
        for one in found
        if any(name.startswith("-") for name in one.names)
    )


def _choices(hint: Any) -> tuple[str, ...]:
    return tuple(str(one) for one in get_args(hint) if isinstance(one, str | int))


def _kinds(hint: Any) -> set[str]:
    return {word for word in ("int", "float", "Path", "str") if word in str(hint)}


def draw(chance: random.Random, place: Path) -> dict[str, Any]:
    """A command with what is wrong with it: {argv, edits, stdin, stdout}."""
    verb = chance.choices(list(VERBS), [WEIGHTS.get(one, 4) for one in VERBS])[0]
    words = shlex.split(chance.choice(BASES[verb]))
    for _ in range(chance.choice([0, 0, 1, 1, 1, 2, 3])):
        words += _option(chance, verb)
    if chance.random() < 0.3 and words:
        words[chance.randrange(len(words))] = chance.choice([*PATHS, *NUMBERS, *WORDS])
    if chance.random() < 0.05 and words:
        del words[chance.randrange(len(words))]
    if chance.random() < 0.03:
        words.insert(chance.randrange(len(words) + 1), chance.choice([*PATHS, *WORDS, "--no-such", "-x"]))
    if verb == "bench":  # whose work takes minutes: one that got so far is refused for this
        words += ["--only", "no such row"]
    made: dict[str, Any] = {"argv": [verb, *words], "edits": _damage(chance, place, words)}
    if chance.random() < 0.05:
        made["stdin"] = chance.choice(["closed", "empty", "binary", "lines"])
    if chance.random() < 0.03:
        made["stdout"] = chance.choice(["closed", "full", "unread"])
    return made


def _option(chance: random.Random, verb: str) -> list[str]:
    one = chance.choice(options(verb))
    name = chance.choice([name for name in one.names if name.startswith("-")])
    if one.flag and chance.random() < 0.9:
        return [name]
    pool = list(one.choices) if one.choices and chance.random() < 0.6 else _values(chance, one)
    value = chance.choice(pool)
    return [f"{name}={value}"] if chance.random() < 0.3 else [name, value]


def _values(chance: random.Random, one: Option) -> list[str]:
    if chance.random() < 0.1:
        return [*NUMBERS, *PATHS, *WORDS]
    if one.kinds & {"int", "float"}:
        return NUMBERS
    return PATHS if "Path" in one.kinds else [*PATHS, *WORDS]


@cache
def _whole(place: Path) -> tuple[str, ...]:
    """The files below a place that a command may read; never any outside, though `/` and `..` are words as well."""
    found = (path for path in place.rglob("*") if path.is_file() and path.suffix not in (".html", ".md", ".py"))
    return tuple(sorted(str(path.relative_to(place)) for path in found))


def _damage(chance: random.Random, place: Path, words: list[str]) -> list[edits.Edit]:
    """Edits of files that the command may read."""
    if chance.random() < 0.6:
        return []
    whole = _whole(place)
    named = [word.rstrip("/") for word in words]
    files = [file for file in whole if any(file == word or file.startswith(f"{word}/") for word in named)]
    if "." in named:
        files = list(whole)
    if not files:
        return []
    return [edits.draw(chance, place, chance.choice(files)) for _ in range(chance.choice([1, 1, 2]))]
