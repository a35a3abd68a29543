"""`headway look`: what attends to what."""

import json as json_format
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from headway.cli.common import Weights, readable, stdin_text, utf8
from headway.cli.look_options import colours, columns, destinations, numbers, refuse, rows_of
from headway.cli.look_patterns import RuleOptions

if TYPE_CHECKING:
    from headway.look.record import Look

NOTHING = "say what to look at: headway look DIR 'a text', or a rule alone, such as headway look --mechanism local"


def look(
    target: str | None = None,
    text: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    pair: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    image: Path | None = None,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    output: Annotated[Path | None, Parameter(show=False)] = None,
    html: Path | None = None,
    png: Path | None = None,
    layers: str | None = None,
    heads: str | None = None,
    rows: str | None = None,
    lens: Annotated[bool, Parameter(show_default=False)] = True,
    dtype: Literal["float32", "bfloat16", "float64"] | None = None,
    weights: Weights = None,
    seed: int = 0,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    rule: Annotated[RuleOptions | None, Parameter(name="*")] = None,
) -> int:
    """See what attends to what in a model, on a text or an image of yours.

    Without -o it is drawn here, with a table of what each head attends to.
    With -o page.html it becomes a page: one file for a browser that asks for
    nothing else, with every head small, one large, its tokens, numbers and
    roles. With -o heads.png (.svg, .pdf) it becomes a picture for a paper.
    The model runs as it is, on its fast path; weights are computed
    afterwards, for the layers, heads and rows that are asked for. Instead of
    a model, a rule can be looked at: a mechanism, a mask, positions.

    For example:

        headway look runs/first
        headway look runs/first "To be, or not to be" -o page.html
        headway look minilm/ "The bank of the river" --heads 0-3
        headway look bert/ "It rains." --pair "The street is wet." -o page.html
        headway look opus-mt-en-de/ "Good morning" --pair "Guten Morgen"
        headway look vit/ --image cat.png --layers 10,11 -o heads.png
        headway look mypackage.models:build "A text" --json
        headway look --mechanism local --window 4 --length 24
        headway look --softmax=-3,1,100,5,-1

    Parameters
    ----------
    target
        A preset (random weights), a run, a directory with weights, or
        package.module:function, which gives a model or a model and its tokenizer.
    text
        What the model reads; - is all of stdin. Of a run it may be left out:
        the example of its report is shown.
    pair
        A second text, or the target of a model that translates (else it
        writes one itself).
    image
        A picture, for a model that reads images.
    out
        Write to this file: a picture if it ends in .png, .svg or .pdf (with
        matplotlib), else a page.
    html
        Write a page to this file.
    png
        Write a picture to this file (.png, .svg or .pdf).
    layers
        Only these, counted from 0 as they run, for example 0-3,7.
    heads
        Only these of each layer, for example 0,5.
    rows
        Only these tokens ask, for example 10-20.
    lens
        Also what the model would say next after each layer.
    dtype
        Precision of the weights; as stored by default.
    seed
        Seed of random weights.
    json
        The record without its arrays, instead of a table.
    """
    page, picture = destinations(out or output, html, png)
    chosen = {"--layers": layers, "--heads": heads, "--rows": rows, "--dtype": dtype, "--weights": weights}
    if rule is not None:
        refuse(
            "a rule is looked at without a model", {"the target": target, "--pair": pair, "--image": image, **chosen}
        )
        from headway.cli import look_patterns

        return look_patterns.rule(rule, page=page, picture=picture, json=json)
    if target is None:
        raise ValueError(NOTHING)
    if text is None and pair is None and image is None and (found := _recorded_heads(target)) is not None:
        refuse(f"without a text of yours, {target} shows the example of its report", chosen)
        return _show(found, page, picture, json)
    asked = numbers(layers, "--layers"), numbers(heads, "--heads"), rows_of(rows)
    read = None if text is None else stdin_text("the text", "a text") if text == "-" else utf8(text, "the text")
    second = None if pair is None else utf8(pair, "--pair")
    if image is not None:
        readable(image)
    # torch takes seconds to import, and --help must not wait for it
    from headway.app.show import open_target, selection_of, view_of
    from headway.look.reading import ModelInputs

    given, selection = ModelInputs(read, second, image), selection_of(*asked)
    with redirect_stdout(sys.stderr):  # what a builder prints is no result of ours
        loaded = open_target(target, seed=seed, dtype=dtype, weights=weights)
        if loaded.weights == "loaded":
            print(loaded.receipt, flush=True)
        view = view_of(loaded, given, selection=selection, lens=lens, say=_say)
    return _show(view.look, page, picture, json)


def _recorded_heads(target: str) -> "Look | None":
    """Of a run, what its report shows: the heads on an example of its own, seen when it ended."""
    from headway.app.heads import read_heads

    return read_heads(Path(target).expanduser()) if target.strip() else None


def _show(look: "Look", page: Path | None, picture: Path | None, json: bool) -> int:
    """Into files, and onto stdout."""
    from headway.data.files import write_whole
    from headway.look.page import document

    if page is not None:
        print(f"written: {write_whole(page, document(look))}", file=sys.stderr)
    if picture is not None:
        from headway.look.picture import draw_picture  # matplotlib is slow to import

        print(f"written: {draw_picture(look, picture)}", file=sys.stderr)
    _print(look, json=json, drawn=page is None and picture is None)
    return 0


def _print(look: "Look", *, json: bool, drawn: bool) -> None:
    from headway.look.record import roles_table
    from headway.look.terminal import draw, heads_table

    if json:
        print(json_format.dumps(plain(look), indent=2, ensure_ascii=False))
        return
    for note in look.notes:
        print(note, file=sys.stderr)
    width = columns()
    if drawn:
        print(f"{look.title}: {look.subtitle}", end="\n\n")
        print(draw(look, width=width, colour=colours()))
        print()
    print(heads_table(roles_table(look), width=width))


def plain(look: "Look") -> dict[str, Any]:
    """The record without what only a machine can read: weights, maps, pictures."""
    from headway.look.record import as_json

    found = as_json(look)
    for layer in found["layers"]:
        del layer["data"], layer["maps"]
    for side in found["sides"]:
        del side["picture"]
    return found


def _say(line: str) -> None:
    """Progress, for whoever watches: a long text takes a while."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)
