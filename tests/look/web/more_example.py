"""Records for the page's other parts: next tokens by layer, roles, patches; numbers made by a rule, no torch."""

from collections.abc import Sequence

import numpy as np

from headway.look.packed import Factors, Weights, factors, weights
from headway.look.record import Kind, Layer, Lens, Look, Measures, Side
from headway.render.png import data_address, png

WORDS = ["the", "animal", "didn't", "cross", "the", "street", "because", "it", "was", "too", "tired"]
VIEWS = ("previous", "first", "same word")
HOSTILE = (
    "<script>alert(1)</script>",
    "שלום",
    "\u202eabc",
    "\n",
    "\x00",
    "\x9b\r\n",
    "\u0301e",
    "",
    "\U0001f469\u200d\U0001f680",
)


def softened(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def text_side(words: Sequence[str] = WORDS, *, name: str = "text") -> Side:
    return Side(name, tuple(words))


def image_side(rows: int = 7, columns: int = 11, *, extra: int = 1, picture: bool = True) -> Side:
    tokens = ["[CLS]"] * extra + [f"{at}" for at in range(rows * columns)]
    return Side("image", tuple(tokens), grid=(rows, columns), extra=extra, picture=_picture() if picture else None)


def _picture(height: int = 140, width: int = 220) -> str:
    """A hill, a sun and a sky: something to lay weights over."""
    y, x = np.mgrid[:height, :width]
    pixels = np.stack([120 + y // 2, 170 + y // 3, np.full_like(y, 235)], -1)
    pixels[y > 95 + 18 * np.sin(x / 31)] = (70, 130, 60)
    pixels[(y - 40) ** 2 + (x - 165) ** 2 < 22**2] = (250, 205, 70)
    return data_address(png(pixels.astype(np.uint8).tobytes(), width=width, height=height, channels=3))


def measured(generator: np.random.Generator, views: Sequence[str]) -> Measures:
    shares = {view: float(share) for view, share in zip(views, generator.random(len(views)) * 0.9, strict=True)}
    chance = dict.fromkeys(views, 0.083)
    best = max(shares, key=lambda view: shares[view], default="broad")
    role = best if shares.get(best, 0) > 0.5 else "broad"
    entropy, reach, largest = (float(one) for one in generator.random(3))
    return Measures(entropy, 9 * reach if role != "first" else None, largest, shares, chance, role)


def layer(
    sides: Sequence[Side],
    *,
    number: int,
    heads: int = 3,
    queries: int = 0,
    keys: int = 0,
    kind: Kind = "encoder",
    views: Sequence[str] = VIEWS,
    packed: bool = False,
) -> Layer:
    """One attention of random queries and keys; head 0 looks at its neighbours."""
    generator = np.random.default_rng(100 * number + queries + 10 * keys)
    length, count = len(sides[queries].tokens), len(sides[keys].tokens)
    q, k = generator.normal(size=(heads, length, 5)), generator.normal(size=(heads, count, 5))
    shares = softened(q @ k.transpose(0, 2, 1))
    shares[0] = softened(-np.abs(np.arange(length)[:, None] - np.arange(count)) / 2.0)
    data: Weights | Factors = factors(q, k) if packed else weights(shares)
    maps = np.rint(255 * shares[:, :24, :24] / shares[:, :24, :24].max((1, 2), keepdims=True)).astype(np.uint8)
    found = tuple(measured(generator, views) for _ in range(heads))
    label, mechanism = str(number), "softmax"
    return Layer(
        f"layers.{number}", label, kind, mechanism, queries, keys, tuple(range(heads)), (0, length), data, maps, found
    )


def lens(side: Side, *, number: int = 0, depths: int = 5, ranks: int = 5) -> Lens:
    """The deeper, the surer: the final answer of a place climbs to the top."""
    generator = np.random.default_rng(17)
    count, guesses = len(side.tokens), np.array([*(" " + word for word in WORDS), *HOSTILE], dtype=object)
    answers = generator.integers(len(guesses), size=count)
    tokens, probabilities = [], []
    for depth in range(depths):
        scores = generator.normal(size=(count, len(guesses)))
        scores[np.arange(count), answers] += 2.0 * depth
        shares = softened(scores)
        order = (-shares).argsort(-1)[:, :ranks]
        tokens.append(tuple(tuple(str(guesses[one]) for one in row) for row in order))
        probabilities.append(tuple(tuple(float(shares[at, one]) for one in row) for at, row in enumerate(order)))
    names = ("embedding", *(str(depth) for depth in range(1, depths - 1)), "output")
    return Lens(number, names, tuple(range(count)), tuple(tokens), tuple(probabilities))


def text_look(*, layers: int = 3, heads: int = 5, words: Sequence[str] = WORDS) -> Look:
    sides = (text_side(words),)
    made = tuple(layer(sides, number=at + 1, heads=heads, kind="decoder") for at in range(layers))
    return Look("A language model", sides, made, lens(sides[0]))


def image_look(*, picture: bool = True, packed: bool = False) -> Look:
    sides = (image_side(picture=picture),)
    made = tuple(layer(sides, number=at + 1, packed=packed) for at in range(2))
    return Look("A vision model", sides, made)


def pair_look() -> Look:
    """A text beside an image: each attends to itself and to the other; the lens is the text's."""
    sides = (text_side(), image_side(5, 3, extra=0))
    pairs: tuple[tuple[int, int, Kind], ...] = ((1, 1, "encoder"), (0, 0, "decoder"), (0, 1, "cross"), (1, 0, "cross"))
    made = tuple(
        layer(sides, number=at + 1, queries=queries, keys=keys, kind=kind)
        for at, (queries, keys, kind) in enumerate(pairs)
    )
    return Look("A picture described", sides, made, lens(sides[0]))
