"""Text from outside (a model, a tokenizer, a file) made safe to print: control characters and blanks become visible."""

import unicodedata

# What has no picture of its own gets one: a control character, half of a surrogate pair.
_SHOWN = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"} | {0x7F: 0x2421}
_SHOWN |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD) | dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)
BLANKS = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥"})
_BREAKS = str.maketrans({"\n": "↵", "\t": "⇥"})
LONGEST = 32  # characters of a token that are shown
UNSEEN = ("Cf", "Zl", "Zp", "Cn", "Co")  # categories of Unicode: no glyph, or one that reverses the line


def visible(text: str) -> str:
    """The text without control characters: a model may write anything, and a terminal or file must bear it.

    >>> visible("a\\x1b[31mb\\r\\nc\\ud800")
    'a␛[31mb\\nc�'
    """
    return text.replace("\r\n", "\n").translate(_SHOWN)


def legible(text: str, *, longest: int = LONGEST) -> str:
    """A token for the eye: blanks and line breaks as signs, what is invisible or turns the line around by its number.

    >>> legible(" a\\n\\u202e"), legible(""), legible("abcdef", longest=4)
    ('␣a↵\\\\u202e', '∅', 'abc…')
    """
    shown = printable(text).translate(BLANKS) or "∅"
    # A mark of vowels or tones needs a letter to stand on, lest it stands on the neighbour's.
    shown = f"◌{shown}" if unicodedata.combining(shown[0]) else shown
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def cell(text: str) -> str:
    """A text as one cell of a table whose cells have tabs between them: on one line, and without a tab.

    >>> cell("very\\tgood\\n")
    'very⇥good↵'
    """
    return printable(text).translate(_BREAKS)


def printable(text: str) -> str:
    """The text without anything invisible: beyond `visible`, what has no picture stands by its number.

    >>> printable("a\\u202eb c")
    'a\\\\u202eb c'
    """
    return "".join(f"\\u{ord(one):04x}" if unicodedata.category(one) in UNSEEN else one for one in visible(text))
