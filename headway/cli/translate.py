"""`headway translate`: lines in, lines out."""

import json as json_format
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from headway.cli.common import Counter, Weights, at_least_one, model_directory, readable, say, utf8
from headway.cli.option_names import check_words, options_of

LONGEST_PREFIX = 1000  # characters


def translate(
    directory: str,
    file: Annotated[Path, Parameter(allow_leading_hyphen=True)] = Path("-"),
    /,
    *,
    beam: Annotated[int | None, Parameter(alias="--beams")] = None,
    length_penalty: float = 1.0,
    max_new_tokens: Annotated[int, Parameter(alias="--max-tokens")] = 256,
    prefix: Annotated[str, Parameter(allow_leading_hyphen=True)] = "",
    source_language: str | None = None,
    target_language: str | None = None,
    batch: int = 32,
    cut: Annotated[bool, Parameter(negative="")] = False,
    dtype: Literal["float32", "bfloat16", "float64"] | None = None,
    weights: Weights = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Translate, or otherwise rewrite, lines of text with a model that reads a source.

    Each line gives one line, in the order of the input; an empty one stays
    empty. Lines of similar length are decoded together, and what one of them
    gets does not depend on the others. The receipt of the load, progress and
    what was cut short are on stderr.

    For example:

        headway translate opus-mt-en-de/ english.txt --beam 6 > german.txt
        headway translate t5-small/ english.txt --prefix "translate English to German: "
        echo "Good morning." | headway translate opus-mt-en-de/ --json
        headway translate nllb-200-distilled-600M/ english.txt --target-language deu_Latn

    Parameters
    ----------
    directory
        The model: a run, or the directory of a T5, mT5, BART, mBART, Pegasus, Marian or M2M-100 with its tokenizer.
    file
        Lines of text in UTF-8; `-` is stdin.
    beam
        Search for the text of the highest score with so many beams; without it, the likeliest token is taken each time.
    length_penalty
        Beam search: the score is the log-probability divided by length to this power.
    max_new_tokens
        Tokens to produce at most for each line.
    prefix
        Text to put before each line, such as T5's names of its tasks.
    source_language
        The language of the lines, of a model that knows several: its code, such as en, en_XX or eng_Latn.
    target_language
        The language to translate into, likewise.
    batch
        How many lines to decode together.
    cut
        Read the beginning of a line that is too long for the model, instead of refusing it.
    dtype
        Compute in this precision, for example bfloat16; by default in the one that the weights are stored in.
    json
        One JSON object per line instead.
    """
    at_least_one(beam=beam, max_new_tokens=max_new_tokens, batch=batch)
    check_words("translate", [str(file)], options_of(translate))
    readable(file)
    utf8(prefix, "--prefix")
    if len(prefix) > LONGEST_PREFIX:
        raise ValueError(
            f"--prefix has {len(prefix):,} characters, and is read again before every line: at most {LONGEST_PREFIX:,}"
        )
    # torch takes seconds to import, and --help must not wait for it
    from headway.app.translate import Translator, check_kind, checked_lines
    from headway.decoding.beam import Beams
    from headway.hub import load, target

    Beams(alpha=length_penalty)  # refused without a beam, too
    path, cuts = model_directory(target.directory(directory), beam, check_kind), Cuts()
    lines = checked_lines(file)
    loaded = load(path, dtype=dtype, weights=weights)
    translator = Translator.of(
        loaded,
        beams=beam,
        length_penalty=length_penalty,
        max_new_tokens=max_new_tokens,
        prefix=prefix,
        source_language=source_language,
        target_language=target_language,
        cut=cut,
        when_cut=cuts,
    )
    say(str(loaded.receipt))
    counter, counts = Counter(), {"line": 0, "short": 0, "tie": 0}
    for line, result in translator.run(lines, batch=batch, progress=counter):
        # A line break of the model's own would move all lines below.
        text = " ".join(result.text.splitlines())
        print(json_format.dumps(_row(line.text, result), ensure_ascii=False) if json else text, flush=True)
        counts["line"] += 1
        counts["short"] += result.finish in ("max_new_tokens", "length")
        counts["tie"] += bool(result.ties)
    say(_summary(**counts, limit=max_new_tokens) + str(cuts))
    return 0


def _row(source: str, result: Any) -> dict[str, Any]:
    row = {"source": source, "text": result.text, "tokens": list(result.tokens), "finish": result.finish}
    return (
        row | ({} if result.score is None else {"score": result.score}) | ({"ties": result.ties} if result.ties else {})
    )


def _summary(line: int, short: int, tie: int, *, limit: int) -> str:
    """What a run did, and what its reader should know.

    >>> _summary(3, 1, 0, limit=256)
    '3 lines; 1 not ended after 256 tokens or at the end of the model'
    >>> _summary(1, 0, 0, limit=256)
    '1 line'
    """
    cut = (
        f"; {short:,} not ended after {limit} token{'' if limit == 1 else 's'} or at the end of the model"
        if short
        else ""
    )
    ties = f"; {tie:,} with a choice by so little that float32 could choose otherwise" if tie else ""
    return f"{_lines(line)}{cut}{ties}"


def _lines(count: int) -> str:
    return f"{count:,} line{'' if count == 1 else 's'}"


class Cuts:
    """How many lines were too long and lost their end.

    >>> cuts = Cuts()
    >>> cuts("a line", 512)
    >>> str(cuts)
    '; 1 cut to the 512 tokens that the model reads'
    """

    def __init__(self) -> None:
        self.count = self.most = 0

    def __call__(self, line: Any, most: int) -> None:
        self.count, self.most = self.count + 1, most

    def __str__(self) -> str:
        return f"; {self.count:,} cut to the {self.most} tokens that the model reads" if self.count else ""
