"""What comes with a model besides its weights, and goes with it when it is saved again: licence, card, tokenizer,
processors, settings that headway has no word for.

A model that was loaded knows its origin. Saving it copies the files that say something of it, and puts back what
config.json and its like said beyond headway's own words, as long as the model and its tokenizer are still those that
were read. A model that was trained from another gets a card of its own with the other's licence, and the other's card
beside it.
"""

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from headway.config.model import ModelConfig
from headway.config.read_file import open_file, parse_yaml, read_json, read_text
from headway.data.files import write_json
from headway.data.hashes import hash_of
from headway.data.shards import tokenizer_hash
from headway.data.tokenizer import FILE, SETTINGS, TEMPLATE, TEMPLATES, Tokenizer
from headway.hub.hashes import HASHES, STEP
from headway.hub.hub_id import snapshot_name
from headway.hub.target import Directory
from headway.models import parameters

CARD, BASE_CARD = "README.md", "README.base.md"
TOKENIZER = (
    FILE, "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt", "*.model", "*.spm", "*.tiktoken",
    "tekken.json", "target_vocab.json",
)  # fmt: skip
TEMPLATE_FILES = (SETTINGS, TEMPLATE, "chat_template.json", f"{TEMPLATES}/*.jinja")
PROCESSORS = ("*processor_config.json", "feature_extractor_config.json")
ABOUT = (
    "readme*", "licen[cs]e*", "copying*", "notice*", "use_policy*", "acceptable_use*", "citation*", "security*", "*.md",
)  # fmt: skip
# Of a directory, what is the weights themselves, or the housekeeping of those who keep it.
WEIGHTS = ("*.safetensors", "*.safetensors.index.json", HASHES, ".*")
# Files that headway writes in its own words, to which the origin's other words are added.
REWRITTEN = ("config.json", "*/config.json", "*processor_config.json", "config_sentence_transformers.json")
# Of config.json, what is said anew of the files as they are now, or names files that are not carried.
RESTATED = (
    "architectures",
    "torch_dtype",
    "dtype",
    "auto_map",
    "quantization_config",
    "_commit_hash",
    "use_mask_token",
)
SAID_OF = ("license", "license_name", "license_link", "language", "datasets", "base_model", "pipeline_tag")
LISTED = 6  # names in a line
SHORT = 10_000  # bytes that no card of headway's own has
# What card() writes of a model that was not trained from another.
PLAIN_CARD = re.compile(
    r"---\n(?:[^\n]*\n)*?---\n\n# [^\n]*\n\nA \w+ model in the layout of \w+: [\d,]+ parameters\.\n\n"
    r"    import headway\n    model, tokenizer, receipt = headway\.load\([^\n]*\)\n"
)


@dataclass(frozen=True)
class ModelOrigin:
    """Where a model was loaded from, and what it and its tokenizer were then.

    `trained`: the model is another one by now, which began as this one. `about` is what a file that has no card says.
    """

    directory: Path
    name: str  # as it was asked for
    config: ModelConfig
    tokenizer: tuple[str, Any]  # its hash and its chat template
    trained: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Any, directory: Path, words: str = "", about: Mapping[str, Any] | None = None) -> "ModelOrigin":
        """Of a model that was just loaded; `words` is the hash of its tokenizer."""
        template = None if model.tokenizer is None else model.tokenizer.chat_template
        name = snapshot_name(directory).partition("@")[0] or str(directory)
        return cls(directory, name, model.config, (words, template), about=about or {})

    @property
    def published(self) -> bool:
        """Whether it was asked for by a name that others know, and not by a path."""
        return self.name != str(self.directory)

    @property
    def title(self) -> str:
        """Its name for others: of a path the end."""
        return self.name if self.published else self.directory.name

    @property
    def files(self) -> dict[str, Path]:
        """Its files by the names that they get in a directory that headway writes, and other folders by their own."""
        if not self.directory.is_dir():
            return {}
        return _files(Directory(self.directory).folder) | _files(self.directory)

    @property
    def metadata(self) -> dict[str, Any]:
        """What its card says to programs: the licence, the language."""
        said = dict(self.about) or card_metadata(self.directory / CARD)
        return {key: said[key] for key in SAID_OF if said.get(key)}


def _files(directory: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for entry in sorted(directory.iterdir()):
        if not entry.is_dir():
            found[entry.name] = entry
        elif STEP.fullmatch(entry.name) or entry.name == TEMPLATES:
            found |= {f"{entry.name}/{one.name}": one for one in sorted(entry.iterdir()) if one.is_file()}
        else:
            found[f"{entry.name}/"] = entry
    return {name: path for name, path in found.items() if not _matches(path.name, WEIGHTS)}


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name.lower(), pattern) for pattern in patterns)


def _fingerprint(tokenizer: Any) -> tuple[str, Any]:
    known = isinstance(tokenizer, Tokenizer)
    return (tokenizer_hash(tokenizer), tokenizer.chat_template) if known else ("", None)


@dataclass(frozen=True)
class Carried:
    """Of one save: which files of the origin are there as they were, which in other words, and which are not.

    >>> print(Carried(("LICENSE", "tokenizer.json"), ("config.json (without auto_map)",), ("onnx/",)))
    carried LICENSE, tokenizer.json; changed config.json (without auto_map); dropped onnx/
    """

    carried: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = (("carried", self.carried), ("changed", self.changed), ("dropped", self.dropped))
        return "; ".join(f"{what} {_some(names)}" for what, names in parts if names)


def _some(names: tuple[str, ...]) -> str:
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")


def carry(model: Any, tokenizer: Any, place: Path, name: str) -> Carried:
    """Into a directory that holds a model: its card and what came with it; says what became of each file."""
    origin: ModelOrigin | None = model.origin
    if origin is not None and not origin.directory.exists():
        (place / CARD).write_text(card(model, name), encoding="utf-8")
        return Carried(dropped=(f"all that came with it, since {origin.directory} is gone",))
    files = {} if origin is None else origin.files
    if origin is not None:
        plain = CARD in files and _is_plain(files[CARD])
        kept = {file: path for file, path in files.items() if not (plain and file == CARD)}
        _copy_files(origin, kept, tokenizer, place)
        if model.config.replace(weights=None) == origin.config.replace(weights=None):
            _restore_settings(files, place)
    if origin is None or origin.trained or not (place / CARD).exists():
        (place / CARD).write_text(card(model, name), encoding="utf-8")
    return _compared(files, place)


def _is_plain(path: Path) -> bool:
    """Whether a card is one that headway wrote of a model that began as no other: it says nothing that config.json does
    not say."""
    if not path.is_file() or path.stat().st_size >= SHORT:
        return False
    return PLAIN_CARD.fullmatch(path.read_text(encoding="utf-8", errors="replace")) is not None


def _copy_files(origin: ModelOrigin, files: Mapping[str, Path], tokenizer: Any, place: Path) -> None:
    """What is not written by headway, and what it writes in fewer words though the tokenizer is the same."""
    words, template = _fingerprint(tokenizer)
    same, same_template = words == origin.tokenizer[0], template == origin.tokenizer[1]
    tokens = (*TOKENIZER, *(TEMPLATE_FILES if same_template else ())) if same else ()
    for file, path in files.items():
        if same and not same_template and file == SETTINGS:
            _restore_words(path, place / file)
        elif _matches(file, tokens) or (_matches(file, (*PROCESSORS, *ABOUT)) and not (place / file).exists()):
            target = place / (BASE_CARD if origin.trained and file == CARD else file)
            target.parent.mkdir(exist_ok=True)
            with open_file(path) as source, target.open("wb") as copy:  # a regular file, no pipe and no device
                shutil.copyfileobj(source, copy)


def _restore_words(theirs: Path, ours: Path) -> None:
    """The settings of a tokenizer as they were, but for its chat template."""
    said, kept = _object(ours) or {}, _object(theirs) or {}
    template = {"chat_template": said["chat_template"]} if "chat_template" in said else {}
    write_json(ours, {**said, **{key: value for key, value in kept.items() if key != "chat_template"}, **template})


def _restore_settings(files: Mapping[str, Path], place: Path) -> None:
    """Words of the origin that headway has none for, where the directory means the same model with them."""
    for file, path in files.items():
        ours = _object(place / file) if _matches(file, REWRITTEN) and (place / file).is_file() else None
        theirs = None if ours is None else _object(path)
        if ours is None or theirs is None or ours.get("model_type") != theirs.get("model_type"):
            continue
        meant = Directory(place).config
        # In the origin's words, in headway's where they disagree and the first mean another model, in those alone.
        kept = {key: value for key, value in theirs.items() if key not in RESTATED}
        for said in ({**ours, **kept}, {**kept, **ours}, ours):
            write_json(place / file, said)
            if _means(place, meant):
                break


def _means(place: Path, config: ModelConfig) -> bool:
    try:
        return Directory(place).config == config
    except ValueError:
        return False


def _object(path: Path) -> dict[str, Any] | None:
    """What a JSON file holds, where that is an object; None of one that nobody could read either."""
    try:
        found = read_json(path)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _compared(files: Mapping[str, Path], place: Path) -> Carried:
    found: dict[str, list[str]] = {"carried": [], "changed": [], "dropped": []}
    for file, path in files.items():
        new = place / file
        if not new.is_file():
            found["dropped"].append(file)
        elif hash_of(new)["sha256"] == hash_of(path)["sha256"]:
            found["carried"].append(file)
        else:
            found["changed"].append(file + _lost_words(path, new))
    return Carried(**{what: tuple(names) for what, names in found.items()})


def _lost_words(before: Path, after: Path) -> str:
    """Which keys of a JSON file are not in another."""
    if before.suffix != ".json" or (old := _object(before)) is None or (new := _object(after)) is None:
        return ""
    lost = tuple(key for key in old if key not in new and key not in ("torch_dtype", "_commit_hash"))
    return f" (without {_some(lost)})" if lost else ""


def card_metadata(path: Path) -> dict[str, Any]:
    """What stands between the first two lines of --- in a model card; nothing where there is none."""
    if not path.is_file():
        return {}
    try:
        _, _, rest = read_text(path).partition("---\n")
        found = parse_yaml(rest.partition("\n---")[0], path)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def card(model: Any, name: str) -> str:
    """A model card in the layout that model hubs show: metadata first, then a few lines for people."""
    origin: ModelOrigin | None = model.origin
    said = {} if origin is None else origin.metadata
    begun = ""
    if origin is not None and origin.trained:
        said |= {"base_model": origin.name} if origin.published else {}
        files = origin.files
        its_card = CARD in files and not _is_plain(files[CARD])
        begun = f" It was trained from {origin.title}{f', whose card is {BASE_CARD}' if its_card else ''}."
    c = model.config
    said |= {"library_name": "headway", "tags": [c.kind, c.family]}
    return f"""---
{yaml.safe_dump(said, sort_keys=False, allow_unicode=True, default_flow_style=None).strip()}
---

# {name}

A {c.kind} model in the layout of {c.family}: {parameters(model):,} parameters.{begun}

    import headway
    model, tokenizer, receipt = headway.load("{name}")
"""
