"""`headway bench report`: a page of rows that were measured before, which says where headway loses.

Rows come from files that `headway bench ... --json` wrote; of rows that were measured several times the last counts.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from headway.bench.row import Row, more_is_better
from headway.render.formats import markdown
from headway.render.table import Amount, Cell, Table

TITLES = {
    "decode": "New tokens, greedy",
    "prefill": "A prompt, until the token that follows it",
    "embed": "Sentences into vectors",
    "translate": "Beam search",
    "load": "From files to the first token",
}
HEAD = """# Speed beside other libraries

This page is made by `headway bench report`, on the machine it names, of rows that were measured apart; `make speed`
measures all of them. In every row: the same weights, threads and precision, each library in a process of its own,
outputs compared before times, interleaved rounds, medians.
`make bench-peers` installs the other libraries. *Ratio* is headway / best peer, the median over rounds; its *spread* is
the interquartile range. *Of limit* is the share of what the machine can do: bytes of the weights / bandwidth, or
operations / the best matrix product, measured in the same run. Of tokens and sentences a second more is better, of
milliseconds less.
"""


def read_rows(paths: Sequence[str]) -> list[Row]:
    """The rows of files written with --json."""
    if not paths:
        raise ValueError("report needs the files that `headway bench ... --json -o FILE` wrote")
    found: dict[tuple, Row] = {}
    for path in paths:
        try:
            rows = [Row(**one) for one in json.loads(Path(path).read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(f"{path} holds no rows of `headway bench ... --json`: {error}") from None
        found |= {(row.work, row.model, row.shape, row.precision): row for row in rows}
    return list(found.values())


def page(rows: Sequence[Row]) -> str:
    """The page, as Markdown."""
    works = [work for work in dict.fromkeys([*TITLES, *(row.work for row in rows)]) if _of(rows, work)]
    tables = [f"## {TITLES.get(work, work)}\n\n{markdown([_table(_of(rows, work))])}" for work in works]
    machines = "\n".join(f"- {machine}" for machine in dict.fromkeys(row.machine for row in rows))
    return (
        "\n\n".join(
            [HEAD.strip(), f"Limits of the machine, one line for each run:\n\n{machines}", *tables, _losses(rows)]
        )
        + "\n"
    )


def _of(rows: Iterable[Row], work: str) -> list[Row]:
    return [row for row in rows if row.work == work]


def _table(rows: Sequence[Row]) -> Table:
    columns = ("what", "precision", "headway", "peers", "ratio", "spread", "of limit", "asked for")
    return Table("", columns, [_cells(row) for row in rows])


def _cells(row: Row) -> list[Cell]:
    peers = sorted(row.peers.items(), key=lambda one: one[1], reverse=more_is_better(row.unit))
    return [
        f"{row.model.split(',')[0]}, {row.shape}",
        row.precision,
        "none" if row.headway is None else f"{_number(row.headway)} {row.unit}",
        " · ".join(f"{name} {_number(value)}" for name, value in peers) or "none",
        None if row.ratio_to_best is None else Amount(row.ratio_to_best, text=f"{row.ratio_to_best:.2f}"),
        None if row.spread is None else Amount(row.spread, text=f"{row.spread:.0%}"),
        None if row.share_of_limit is None else Amount(row.share_of_limit, text=f"{row.share_of_limit:.0%}"),
        f"{row.target.removesuffix(' x the best peer')}: {row.verdict}" if row.target else "–",
    ]


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def loses(row: Row) -> bool:
    """Whether a peer is ahead, or headway has nothing to race with."""
    if row.headway is None:
        return bool(row.peers)
    return row.ratio_to_best is not None and (row.ratio_to_best < 1) == more_is_better(row.unit)


def _losses(rows: Sequence[Row]) -> str:
    lines = [_loss(row) for row in rows if loses(row)]
    notes = dict.fromkeys(f"- {row.model} {row.shape} {row.precision}: {row.note}" for row in rows if row.note)
    said = "\n".join(lines) if lines else "In none of these rows."
    return "\n\n".join([f"## Where headway loses\n\n{said}", *(["## Notes\n\n" + "\n".join(notes)] if notes else [])])


def _loss(row: Row) -> str:
    label = f"- {row.model}, {row.shape}, {row.precision}"
    if row.headway is None:
        return (
            f"{label}: headway has none; {row.best_peer} reaches {_number(row.peers[row.best_peer or ''])} {row.unit}."
        )
    return f"{label}: {row.ratio_to_best:.2f} x {row.best_peer}."
