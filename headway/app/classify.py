"""Texts or pictures in, classes out: a window of inputs at a time, sorted by length within it, in the order given."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, overload

import torch
from jaxtyping import Float
from torch import Tensor

from headway.app.spans import Span, answers, entities
from headway.config.kinds import kinds_where
from headway.data.lines import lines_of
from headway.data.stream import stdin_bytes
from headway.data.tokenizer import Tokenizer
from headway.decoding.reader import padded
from headway.hub.load import Loaded, called, with_tokenizer
from headway.nn.modes import evaluating

WINDOW = 4096  # inputs; a file may be longer than memory
SPANS = ("entities", "answers")  # what parts of a text a model may find
Classes = list[tuple[str, float]]
Result = Classes | list[Span]
PICTURES = kinds_where(lambda config: config.reads == "images")  # kinds of models that look at pictures
TEXTS = kinds_where(lambda config: "classify" in config.measures)  # and at texts


@dataclass(frozen=True)
class Item:
    """One input: a text, perhaps with a second one, or the path of a picture."""

    where: str
    text: str
    pair: str | None = None


@dataclass
class Classifier:
    """Inputs to logits; what one of them gets does not depend on the others."""

    model: Any
    tokenizer: Tokenizer | None
    cut: bool = False  # a text that is too long, instead of refusing it
    shortened: int = 0  # texts so far that were cut

    @classmethod
    def of(cls, loaded: Loaded, *, cut: bool = False) -> "Classifier":
        return cls.made(loaded.model, loaded.tokenizer, loaded.receipt.path, cut=cut)

    @classmethod
    def made(cls, model: Any, tokenizer: Tokenizer | None, name: str, *, cut: bool = False) -> "Classifier":
        kind = model.config.kind
        if kind not in (*TEXTS, *PICTURES) or not (model.config.classes or _finds(model.config)):
            raise ValueError(f"{name} holds a {kind} model without a classifier, so it knows no classes")
        if kind in TEXTS and tokenizer is None:
            raise ValueError(f"{name} has no tokenizer (tokenizer.json or vocab.txt), so it cannot read text")
        return cls(model, tokenizer, cut)

    @property
    def sees(self) -> bool:
        """Whether its inputs are pictures."""
        return self.model.config.kind in PICTURES

    @property
    def outcome(self) -> str:
        """One class of several, several at once, or values; entities or answers, where it finds parts of a text."""
        return "one" if self.sees else _finds(self.model.config) or self.model.config.outcome

    def items(self, files: Sequence[Path]) -> Iterator[Item]:
        """What the files hold: lines of text, or pictures; `-`, or none, is stdin."""
        return _items(files or [Path("-")], self.sees)

    def run(
        self, items: Iterator[Item], *, batch: int, progress: Callable[[int], None]
    ) -> Iterator[tuple[Item, Result]]:
        """Every input with its classes and their numbers, or with the parts that were found, in the order given."""
        done = 0
        while window := list(islice(items, WINDOW)):
            results = self.spans(window, batch=batch) if self.outcome in SPANS else self._classes(window, batch)
            yield from zip(window, results, strict=True)
            done += len(window)
            progress(done)
        if not done:
            raise ValueError("there is nothing to classify: the input is empty")

    def _classes(self, items: Sequence[Item], batch: int) -> Iterator[Classes]:
        for item, logits in zip(items, self(items, batch=batch), strict=True):
            _check_finite(item, logits)
            yield self.ranked(logits)

    def ranked(self, logits: Float[Tensor, " C"]) -> list[tuple[str, float]]:
        """(class, probability), the most probable first; values stay in the order of their classes."""
        if self.outcome == "value":
            return [(self.model.config.label(index), value) for index, value in enumerate(logits.tolist())]
        values = logits.softmax(-1) if self.outcome == "one" else logits.sigmoid()
        order = values.argsort(descending=True, stable=True).tolist()
        return [(self.model.config.label(index), float(values[index])) for index in order]

    @torch.inference_mode()
    def __call__(self, items: Sequence[Item], *, batch: int) -> Float[Tensor, "N C"]:
        return self._see(items, batch) if self.sees else self._read(items, batch)

    def _see(self, items: Sequence[Item], batch: int) -> Float[Tensor, "N C"]:
        parts = [items[start : start + batch] for start in range(0, len(items), batch)]
        images = (torch.stack([_picture(item, self.model.config) for item in part]) for part in parts)
        return torch.cat([self.model(part).float() for part in images])

    def _read(self, items: Sequence[Item], batch: int) -> Float[Tensor, "N C"]:
        logits = torch.empty(len(items), self.model.config.classes)
        for rows, found in self._passes(self._encoded(items), batch):
            logits[rows] = found
        return logits

    @torch.inference_mode()
    def spans(self, items: Sequence[Item], *, batch: int) -> list[list[Span]]:
        """The named entities of each text, or the answers to each question, the most probable first."""
        self._check_pairs(items)
        encoded = self._encoded(items)
        results: list[list[Span]] = [[] for _ in items]
        for rows, found in self._passes(encoded, batch):
            for row, logits in zip(rows, found, strict=True):
                item, own = items[row], logits[: len(encoded[row].ids)]
                _check_finite(item, own)
                if item.pair is not None:
                    results[row] = answers(item.pair, encoded[row], own)
                else:
                    results[row] = entities(item.text, encoded[row], own, self.model.config.token_label)
        return results

    def _check_pairs(self, items: Sequence[Item]) -> None:
        """Answers are found in a second text, entities in one alone."""
        for item in items:
            if self.outcome == "answers" and item.pair is None:
                raise ValueError(
                    f"{item.where} has no text to find an answer in: give question and text, a tab between"
                )
            if self.outcome == "entities" and item.pair is not None:
                raise ValueError(f"{item.where} has two texts, and this model says of the tokens of one what they are")

    def _passes(self, encoded: Sequence[Any], batch: int) -> Iterator[tuple[list[int], Tensor]]:
        """Rows and their logits; texts of similar length are computed together, so that little is padded."""
        order = sorted(range(len(encoded)), key=lambda index: len(encoded[index].ids))
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            tokens, keep = padded([tuple(encoded[row].ids) for row in rows], left=False)
            types, _ = padded([tuple(encoded[row].type_ids) for row in rows], left=False)
            yield rows, self.model(tokens, keep=keep, types=self.model.told_apart(types)).float()

    def _encoded(self, items: Sequence[Item]) -> list[Any]:
        assert self.tokenizer is not None
        engine, most = self.tokenizer.engine, self.model.config.length
        paired = self.outcome == "answers"
        if self.cut:
            engine.enable_truncation(max_length=most, strategy="only_second" if paired else "longest_first")
        found = engine.encode_batch([item.text if item.pair is None else (item.text, item.pair) for item in items])
        engine.no_truncation()
        self.shortened += sum(bool(one.overflowing) for one in found)
        for item, length in zip(items, (len(one.ids) for one in found), strict=True):
            if length > most:
                raise ValueError(
                    f"{item.where} has {length} tokens, and the model reads {most}: shorten it, or read its beginning "
                    "with --cut (cut=True)"
                )
            if length == 0:
                raise ValueError(f"{item.where} has no token that the model could read")
        return found


@overload
def classify(
    model: Any, inputs: str | Path, *, tokenizer: Tokenizer | None = None, batch: int = 32, cut: bool = False
) -> Result: ...
@overload
def classify(
    model: Any,
    inputs: Sequence[str | Path | tuple[str, str]],
    *,
    tokenizer: Tokenizer | None = None,
    batch: int = 32,
    cut: bool = False,
) -> list[Result]: ...
def classify(
    model: Any, inputs: Any, *, tokenizer: Tokenizer | None = None, batch: int = 32, cut: bool = False
) -> Result | list[Result]:
    """(class, probability) of a text or a picture's path, the most probable first; a list of these for several.

    Two texts that belong together are a tuple. A classifier of tokens gives the named entities of a text, and a model
    for questions the answers to (question, text), as `Span`s with text, label, probability, start and end.

    The model is one that `headway.load` gave, or the name or path of one.
    """
    found, known = with_tokenizer(model, tokenizer)
    classifier = Classifier.made(found, known, called(model), cut=cut)
    single = isinstance(inputs, str | Path)
    rows = [_item(one, place) for place, one in enumerate([inputs] if single else inputs)]
    with evaluating(found):
        results = [classes for _, classes in classifier.run(iter(rows), batch=batch, progress=lambda done: None)]
    return results[0] if single else results


def _finds(config: Any) -> str:
    """What parts of a text a model finds: entities, answers, or none."""
    if config.kind != "masked" or config.classes:
        return ""
    return "entities" if config.token_classes else "answers" if config.answers else ""


def _check_finite(item: Item, logits: Tensor) -> None:
    if not bool(logits.isfinite().all()):
        raise ValueError(f"the classes of {item.where} are not finite numbers: the weights are damaged")


def _item(given: Any, place: int) -> Item:
    if isinstance(given, str | Path):
        return Item(f"input {place}", str(given))
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(one, str) for one in given):
        return Item(f"input {place}", *given)
    raise ValueError(f"input {place} is a text, two texts in a tuple or the path of a picture, not {given!r}")


def check(files: Sequence[Path], kind: str) -> None:
    """Refuse input that a model of this kind cannot read; what can be read only once, such as a pipe, is left alone."""
    for file in files or [Path("-")]:
        if str(file) != "-" and file.is_file():
            deque(_items([file], kind in PICTURES), maxlen=0)
        elif str(file) == "-" and (given := stdin_bytes()).seekable():
            start = given.tell()
            deque(_items([file], kind in PICTURES), maxlen=0)
            given.seek(start)


def _items(files: Sequence[Path], sees: bool) -> Iterator[Item]:
    return _pictures(files) if sees else _texts(files)


def _picture(item: Item, config: Any) -> Float[Tensor, "C Y X"]:
    from headway.data.image import read_image

    try:
        return read_image(item.text, config)
    except ValueError as error:
        raise ValueError(str(error) if item.where == item.text else f"{item.where}: {error}") from None


def _pictures(files: Sequence[Path]) -> Iterator[Item]:
    """Each line of stdin is a path; one without would leave a result out, and the lines would no longer correspond."""
    for file in files:
        for where, path in lines_of(file) if str(file) == "-" else [(str(file), str(file))]:
            if not path:
                raise ValueError(f"{where} is empty: give the path of a picture")
            if not Path(path).exists():
                raise ValueError(f"{where}: there is no file {path}")
            yield Item(where, path)


def _texts(files: Sequence[Path]) -> Iterator[Item]:
    for where, line in (one for file in files for one in lines_of(file)):
        columns = line.split("\t")
        if len(columns) > 2:
            raise ValueError(f"{where} has {len(columns)} columns: give a text, or two with a tab between them")
        yield Item(where, *columns)
