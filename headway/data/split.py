"""Plain text into sentences, by rules that are good enough and need no dictionary.

A sentence ends at . ! ? or … before a space and a capital, a digit or an opening quote, unless a known abbreviation or
an initial stands before; headings, items of lists and paragraphs end one too.
"""

import re
from collections.abc import Iterator

ABBREVIATIONS = frozenset(
    f"{word}."
    for word in re.findall(
        r"\S+",
        "e.g i.e cf vs etc mr mrs ms dr prof vol fig figs eq sec ch p pp ed eds al approx dept inc ltd jr sr a.m p.m "
        "u.s sra ud uds ej",
    )
)
_BLANK = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_RULE = re.compile(r"^[ \t]*([=\-~^*#_+.`])\1{2,}[ \t]*$", re.MULTILINE)  # under headings, between parts
_ITEM = re.compile(r"\n(?=[ \t]*(?:[*+•·-]|#{1,6}|\d{1,3}[.)])[ \t]+\S)")
_END = re.compile(r"[.!?…]+[\"'”’»)\]]*\s+|[。！？]+[」』”]*\s*")
_OPENING = "\"'“‘«([¿¡*`_"


def sentences(text: str) -> Iterator[str]:
    """The sentences of one document, white space made single.

    >>> list(sentences("Of cats\\n=======\\n\\nThey sleep, e.g. at\\nnoon. Why? Dr. Who knows."))
    ['Of cats', 'They sleep, e.g. at noon.', 'Why?', 'Dr. Who knows.']
    """
    for paragraph in paragraphs(text):
        yield from _pieces(paragraph)


def paragraphs(text: str) -> Iterator[str]:
    """Blocks between blank lines and rules; each item of a list is one."""
    for block in _BLANK.split(_RULE.sub("\n", text.replace("\r\n", "\n"))):
        for part in _ITEM.split(block):
            if found := " ".join(part.split()):
                yield found


def _pieces(paragraph: str) -> Iterator[str]:
    start = 0
    for match in _END.finditer(paragraph):
        if _ends(paragraph, start, match):
            yield from _worth(paragraph[start : match.end()])
            start = match.end()
    yield from _worth(paragraph[start:])


def _ends(paragraph: str, start: int, match: re.Match[str]) -> bool:
    following = paragraph[match.end() :].lstrip(_OPENING)[:1] if match.end() < len(paragraph) else ""
    if match[0][0] in "。！？":
        return True
    if following and not (following.isupper() or following.isdigit() or paragraph[match.end()] in _OPENING):
        return False
    last = paragraph[start : match.start() + 1].rpartition(" ")[2].lstrip(_OPENING)
    initial = len(last) == 2 and last[0].isupper() and last[0] not in "IAOYE"
    return not (match[0][0] == "." and (last.lower() in ABBREVIATIONS or initial))


def _worth(piece: str) -> Iterator[str]:
    """Rows of signs are no sentences."""
    if any(letter.isalpha() for letter in piece):
        yield piece.strip()
