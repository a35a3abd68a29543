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

from headway.config.kinds import kinds_where
from headway.data.lines import lines_of
from headway.data.stream import stdin_bytes
from headway.data.tokenizer import Tokenizer
from headway.decoding.reader import padded
from headway.hub.load import Loaded, called, with_tokenizer
from headway.nn.modes import evaluating

WINDOW = 4096  # inputs; a file may be longer than memory
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
        if kind not in (*TEXTS, *PICTURES) or not model.config.classes:
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
        """One class of several, several at once, or values."""
        return "one" if self.sees else self.model.config.outcome

    def items(self, files: Sequence[Path]) -> Iterator[Item]:
        """What the files hold: lines of text, or pictures; `-`, or none, is stdin."""
        return _items(files or [Path("-")], self.sees)

    def run(
        self, items: Iterator[Item], *, batch: int, progress: Callable[[int], None]
    ) -> Iterator[tuple[Item, list[tuple[str, float]]]]:
        """Every input with its classes and their numbers, in the order given."""
        done = 0
        while window := list(islice(items, WINDOW)):
            for item, logits in zip(window, self(window, batch=batch), strict=True):
                if not bool(logits.isfinite().all()):
                    raise ValueError(f"the classes of {item.where} are not finite numbers: the weights are damaged")
                yield item, self.ranked(logits)
            done += len(window)
            progress(done)
        if not done:
            raise ValueError("there is nothing to classify: the input is empty")

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
        """Texts of similar length are computed together, so that little is padded."""
        found = self._encoded(items)
        order = sorted(range(len(items)), key=lambda index: len(found[index].ids))
        logits = torch.empty(len(items), self.model.config.classes)
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            tokens, keep = padded([tuple(found[row].ids) for row in rows], left=False)
            types, _ = padded([tuple(found[row].type_ids) for row in rows], left=False)
            logits[rows] = self.model(tokens, keep=keep, types=self.model.told_apart(types)).float()
        return logits

    def _encoded(self, items: Sequence[Item]) -> list[Any]:
        assert self.tokenizer is not None
        engine, most = self.tokenizer.engine, self.model.config.length
        if self.cut:
            engine.enable_truncation(max_length=most)
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


Classes = list[tuple[str, float]]


@overload
def classify(
    model: Any, inputs: str | Path, *, tokenizer: Tokenizer | None = None, batch: int = 32, cut: bool = False
) -> Classes: ...
@overload
def classify(
    model: Any,
    inputs: Sequence[str | Path | tuple[str, str]],
    *,
    tokenizer: Tokenizer | None = None,
    batch: int = 32,
    cut: bool = False,
) -> list[Classes]: ...
def classify(
    model: Any, inputs: Any, *, tokenizer: Tokenizer | None = None, batch: int = 32, cut: bool = False
) -> Classes | list[Classes]:
    """(class, probability) of a text or a picture's path, the most probable first; a list of these for several.

    Two texts that belong together are a tuple. The model is one that `headway.load` gave, or the name or path of one.
    """
    found, known = with_tokenizer(model, tokenizer)
    classifier = Classifier.made(found, known, called(model), cut=cut)
    single = isinstance(inputs, str | Path)
    rows = [_item(one, place) for place, one in enumerate([inputs] if single else inputs)]
    with evaluating(found):
        results = [classes for _, classes in classifier.run(iter(rows), batch=batch, progress=lambda done: None)]
    return results[0] if single else results


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
