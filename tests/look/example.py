"""Records made by rule, without a model: for looking at pages, and for the tests of everything that draws."""

from dataclasses import dataclass

import numpy as np

from headway.look import packed
from headway.look.packed import Factors, Weights
from headway.look.record import Kind, Layer, Lens, Look, Measures, Side
from headway.render.png import data_address, png

SENTENCE = ["the", "animal", "didn't", "cross", "the", "street", "because", "it", "was", "too", "tired"]
SOURCE = ["das", "Tier", "überquerte", "die", "Straße", "nicht", ",", "weil", "es", "zu", "müde", "war"]
ROLES = ("previous", "first", "same word", "broad", "itself", "next", "separators")
MAP = 24  # pixels of a small map
WIDTH = 64  # of a head


@dataclass(frozen=True)
class Shape:
    """What an example is made of."""

    layers: int = 4
    heads: int = 3
    factors: bool = False
    causal: bool = False


SMALL = Shape()


def example(
    tokens: list[str] | None = None,
    *,
    length: int | None = None,
    shape: Shape = SMALL,
    cross: bool = False,
    grid: tuple[int, int] | None = None,
    lens: bool = False,
) -> Look:
    """A sentence (or `length` tokens of it, over and over), two sentences joined by cross-attention, or patches."""
    side = _patches(grid) if grid else _text("text", tokens or SENTENCE, length)
    sides = (_text("source", SOURCE, None), _text("target", SENTENCE, None)) if cross else (side,)
    plan: list[tuple[Kind, int, int]] = [("encoder", 0, 0), ("decoder", 1, 1), ("cross", 1, 0)]
    alone: list[tuple[Kind, int, int]] = [("decoder" if shape.causal else "encoder", 0, 0)]
    made = [
        _layer(kind, place, sides, asks, answers, shape)
        for kind, asks, answers in (plan if cross else alone)
        for place in range(shape.layers)
    ]
    notes = ("A record made by rule, without a model.",)
    return Look("An example", sides, tuple(made), _lens(sides[-1], shape.layers) if lens else None, notes, "by rule")


def _text(name: str, words: list[str], length: int | None) -> Side:
    count = length or len(words)
    tokens = tuple(words[place % len(words)] for place in range(count))
    return Side(name, tokens, special=(count - 1,) if tokens[-1] == "[SEP]" else (), words=tuple(range(count)))


def _patches(grid: tuple[int, int]) -> Side:
    rows, columns = grid
    y, x = np.mgrid[0 : rows * 16, 0 : columns * 16]
    disc = (y - rows * 7) ** 2 + (x - columns * 9) ** 2 < (rows * 4) ** 2
    colour = np.stack([np.where(disc, 240, 40 + 3 * y), np.where(disc, 160, 90 + 2 * x), 60 + x + y], -1)
    pixels = colour.clip(0, 255).astype(np.uint8)
    picture = data_address(png(pixels.tobytes(), width=columns * 16, height=rows * 16, channels=3))
    tokens = ("[CLS]", *(f"{row + 1},{column + 1}" for row in range(rows) for column in range(columns)))
    return Side("image", tokens, special=(0,), grid=grid, extra=1, picture=picture)


def _layer(kind: Kind, place: int, sides: tuple[Side, ...], asks: int, answers: int, shape: Shape) -> Layer:
    count, others = len(sides[asks].tokens), len(sides[answers].tokens)
    causal = kind == "decoder"
    made = (_random if shape.factors else _ruled)(place, count, others, shape.heads, causal)
    sampled = np.linspace(0, count - 1, min(count, MAP)).astype(int)
    some = np.stack([[made.row(head, int(row)) for row in sampled] for head in range(shape.heads)])
    roles = [ROLES[(place + head) % len(ROLES)] for head in range(shape.heads)]
    measures = tuple(_measures(one, sampled, role, asks == answers) for one, role in zip(some, roles, strict=True))
    heads = tuple(range(shape.heads))
    name = f"{kind}.{place}.attention"
    return Layer(
        name, str(place + 1), kind, "softmax", asks, answers, heads, (0, count), made, _small(some), measures
    )  # fmt: skip


def _ruled(place: int, count: int, others: int, heads: int, causal: bool) -> Weights:
    """Heads that each do one thing, a little less sharply in each layer."""
    i, j = np.mgrid[0:count, 0:others]
    i = i * others / count
    far = {"previous": i - 1 - j, "first": j, "same word": (i - j) % 5, "broad": 0 * j, "itself": i - j}
    far |= {"next": i + 1 - j, "separators": others - 1 - j}
    scores = np.stack([-np.abs(far[ROLES[(place + head) % len(ROLES)]]) for head in range(heads)]) * (2.5 - 0.3 * place)
    scores = scores + np.random.default_rng(place).normal(size=scores.shape)
    scores = np.where((j <= i) | (not causal), scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return packed.weights(powers / powers.sum(-1, keepdims=True))


def _random(place: int, count: int, others: int, heads: int, causal: bool) -> Factors:
    """Queries and keys that know where they stand, with some noise."""
    draw = np.random.default_rng(place)
    wave = np.exp(-np.arange(WIDTH // 2) / 4) * 2
    turn = np.stack([f(np.arange(max(count, others))[:, None] * wave) for f in (np.sin, np.cos)], -1)
    turn = turn.reshape(len(turn), -1)
    size = draw.uniform(0.3, 1.2, (heads, 1, 1))
    q = size * (turn[:count] * (draw.random(WIDTH) < 0.4) + 0.3 * draw.normal(size=(heads, count, WIDTH)))
    return packed.factors(q, turn[:others] + draw.normal(size=(heads, others, WIDTH)), causal=causal)


def _small(rows: np.ndarray) -> np.ndarray:
    """Each head as a small picture: the largest of the keys that share a pixel."""
    edges = np.linspace(0, rows.shape[-1], min(rows.shape[-1], MAP) + 1).astype(int)[:-1]
    pooled = np.maximum.reduceat(rows, edges, -1)
    return np.rint(255 * pooled / pooled.max((1, 2), keepdims=True)).astype(np.uint8)


def _measures(rows: np.ndarray, places: np.ndarray, role: str, one_text: bool) -> Measures:
    logs = np.log(np.where(rows > 0, rows, 1))
    entropy = float((-(rows * logs).sum(-1) / np.log(np.maximum((rows > 0).sum(-1), 2))).mean())
    far = np.abs(np.arange(rows.shape[-1]) - places[:, None])
    reach = float((rows * far).sum(-1).mean()) if one_text else None
    before = float(np.mean([row[place - 1] for row, place in zip(rows, places, strict=True) if place]))
    views = {"previous": before if one_text else 0.0, "first": float(rows[:, 0].mean())}
    even = 1 / rows.shape[-1]
    chance = {"previous": even, "first": even}
    return Measures(entropy, reach, float(rows.max(-1).mean()), views, chance, role)


def _lens(side: Side, layers: int) -> Lens:
    depths = ("embedding", *(str(place + 1) for place in range(layers)))
    places, ranks = tuple(range(len(side.tokens))), 5
    draw = np.random.default_rng(7)
    odds = np.sort(draw.dirichlet(np.ones(ranks + 2), (len(depths), len(places))))[..., : -ranks - 1 : -1]
    words = draw.integers(0, len(SOURCE), (len(depths), len(places), ranks))
    tokens = tuple(tuple(tuple(SOURCE[one] for one in row) for row in depth) for depth in words)
    numbers = tuple(tuple(tuple(map(float, row)) for row in depth) for depth in odds)
    return Lens(len(side.tokens) and 0, depths, places, tokens, numbers, "Each depth is read by the model's own head.")
