"""Lines in, lines out, by a model that reads a source: a window of lines at a time, in the order given."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from headway.config import nearest
from headway.config.kinds import kinds_where
from headway.data.lines import lines_of
from headway.data.tokenizer import Tokenizer
from headway.decoding import Generation, NonFiniteLogits, Request, beam, generate
from headway.hub.load import Loaded, called, with_tokenizer
from headway.nn.modes import evaluating

WINDOW = 1024  # lines; a file may be longer than memory
KINDS = kinds_where(lambda config: config.reads == "source")
EMPTY = Generation((), "", "end")  # of a line without words, which no model needs to see


@dataclass(frozen=True)
class Line:
    """One source, and where it stands."""

    where: str
    text: str


@dataclass(frozen=True)
class Translator:
    """Lines to lines; what one of them gets does not depend on the others."""

    model: Any
    tokenizer: Tokenizer
    beams: int | None = None  # None: the likeliest token, one after the other
    length_penalty: float = 1.0
    max_new_tokens: int = 256
    prefix: str = ""
    source_language: int | None = None  # the tokens of the languages, where the model has several
    target_language: int | None = None
    cut: bool = False  # a line that is too long, instead of refusing it
    when_cut: Callable[[Line, int], None] = lambda line, most: None  # hears of it, and to how many tokens

    @classmethod
    def of(cls, loaded: Loaded, **options: Any) -> "Translator":
        return cls.made(loaded.model, loaded.tokenizer, loaded.receipt.path, **options)

    @classmethod
    def made(cls, model: Any, tokenizer: Tokenizer | None, name: str, **options: Any) -> "Translator":
        check_kind(name, model.config.kind)
        if tokenizer is None:
            raise ValueError(f"{name} has no tokenizer (tokenizer.json), so it cannot read text")
        for which in ("source_language", "target_language"):
            if options.get(which) is not None:
                options[which] = language_token(tokenizer, options[which], name)
        return cls(model, tokenizer, **options)

    def run(
        self, lines: Iterator[Line], *, batch: int, progress: Callable[[int], None]
    ) -> Iterator[tuple[Line, Generation]]:
        """Every line with its translation, in the order given; `progress` hears how many are done."""
        done = 0
        while window := list(islice(lines, WINDOW)):
            found = self(window, batch=batch, progress=partial(_further, progress, done))
            yield from zip(window, found, strict=True)
            done += len(window)

    def __call__(
        self, lines: Sequence[Line], *, batch: int = 32, progress: Callable[[int], None] = lambda done: None
    ) -> list[Generation]:
        """Lines of similar length are read together, so that little is padded; the longest come first."""
        sources = self._encoded(lines)
        order = sorted((row for row, source in enumerate(sources) if source), key=lambda row: -len(sources[row]))
        found = [EMPTY] * len(lines)
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            for row, result in zip(rows, self._named(lines, sources, rows), strict=True):
                found[row] = result
            progress(len(lines) - len(order) + start + len(rows))
        return found

    def _named(
        self, lines: Sequence[Line], sources: Sequence[tuple[int, ...]], rows: Sequence[int]
    ) -> list[Generation]:
        try:
            return self._decoded([sources[row] for row in rows])
        except NonFiniteLogits as error:
            where = lines[rows[error.request]].where
            raise ValueError(
                f"the model's largest logit for {where} is {error.value}: its weights are broken"
            ) from None

    def _decoded(self, sources: Sequence[tuple[int, ...]]) -> list[Generation]:
        requests = [
            Request(prompt=source, max_new_tokens=self.max_new_tokens, first_token=self.target_language)
            for source in sources
        ]
        options: dict[str, Any] = {"tokenizer": self.tokenizer, "past_length": "stop"}
        if self.beams is None:
            return generate(self.model, requests, **options)
        found = beam(self.model, requests, beams=self.beams, alpha=self.length_penalty, **options)
        return [best for best, *_ in found]

    def _encoded(self, lines: Sequence[Line]) -> list[tuple[int, ...]]:
        """The tokens of each line; none where it has no words."""
        found = self.tokenizer.encode_all([self.prefix + line.text for line in lines])
        if self.source_language is not None:
            found = [self._spoken(tokens) for tokens in found]
        return [
            self._fitting(line, tokens) if line.text.strip() else () for line, tokens in zip(lines, found, strict=True)
        ]

    def _spoken(self, tokens: list[int]) -> list[int]:
        """The tokens of a line with another language where the tokenizer put its own."""
        known, own = set(languages(self.tokenizer).values()), self.source_language
        assert own is not None
        if not known.intersection(tokens):
            raise ValueError("this tokenizer puts no language beside a text: leave source_language out")
        return [own if token in known else token for token in tokens]

    def _fitting(self, line: Line, tokens: list[int]) -> tuple[int, ...]:
        most = self.model.config.length if self.model.config.kind == "seq2seq" else None
        if not tokens:
            raise ValueError(f"{line.where} has no token that the model could read")
        if most is None or len(tokens) <= most:
            return tuple(tokens)
        if not self.cut:
            raise ValueError(
                f"{line.where} has {len(tokens)} tokens, and the model reads {most}: shorten it, or read its "
                "beginning with --cut (cut=True)"
            )
        self.when_cut(line, most)
        return (*tokens[: most - 1], tokens[-1])  # the last one tells the model that the source has ended


class Options(TypedDict, total=False):
    """What `translate` takes beside a model and its texts; those of a Translator, and how many are read together."""

    tokenizer: Tokenizer | None
    beams: int | None
    length_penalty: float
    max_new_tokens: int
    prefix: str
    source_language: str | None
    target_language: str | None
    cut: bool
    batch: int


@overload
def translate(model: Any, texts: str, **options: Unpack[Options]) -> Generation: ...
@overload
def translate(model: Any, texts: Sequence[str], **options: Unpack[Options]) -> list[Generation]: ...
def translate(
    model: Any, texts: Any, *, tokenizer: Tokenizer | None = None, batch: int = 32, **options: Any
) -> Generation | list[Generation]:
    """The translation of a text, or of each of several, by a model that reads a source; `.text` has the words.

    The model is one that `headway.load` gave, or the name or path of one. An empty text stays empty. A model of several
    languages (M2M-100, mBART-50, NLLB-200) is told them by their codes: source_language="en", target_language="de".
    """
    found, known = with_tokenizer(model, tokenizer)
    translator = Translator.made(found, known, called(model), **options)
    rows = [Line(f"text {place}", text) for place, text in enumerate([texts] if isinstance(texts, str) else texts)]
    with evaluating(found):
        results = translator(rows, batch=batch)
    return results[0] if isinstance(texts, str) else results


# How tokenizers write languages: __de__ (M2M-100), de_DE (mBART), deu_Latn (NLLB-200).
LANGUAGE = re.compile(r"__([a-z]{2,3})__|([a-z]{2,3}_[A-Z][A-Za-z]+)")


def languages(tokenizer: Tokenizer) -> dict[str, int]:
    """The languages that a tokenizer has tokens for, by their codes."""
    added = {number: token.content for number, token in tokenizer.engine.get_added_tokens_decoder().items()}
    found = {number: LANGUAGE.fullmatch(content) for number, content in added.items()}
    return {one[1] or one[2]: number for number, one in found.items() if one is not None}


def language_token(tokenizer: Tokenizer, code: str, name: str) -> int:
    """The token of a language; one that the tokenizer does not know is refused."""
    known = languages(tokenizer)
    if code not in known:
        listed = f"it has {', '.join(sorted(known))}" if known else "it has none: leave the languages out"
        raise ValueError(f"{name} has no token for the language {code!r}{nearest(code, known)}; {listed}")
    return known[code]


def check_kind(path: str, kind: str) -> None:
    """Refuse a model that reads no source."""
    if kind not in KINDS:
        raise ValueError(
            f"{path} holds a {kind} model, and translating takes one that reads a source "
            f"({', '.join(KINDS)}); see headway generate"
        )


def _further(progress: Callable[[int], None], before: int, count: int) -> None:
    progress(before + count)


def checked_lines(file: Path) -> Iterator[Line]:
    """The lines of a file, after a look at whether it is text: all of a file, the first window of a pipe."""
    lines = (Line(*one) for one in lines_of(file))
    if file.is_file():
        for _ in lines_of(file):
            pass
        return lines
    return chain(list(islice(lines, WINDOW)), lines)
