"""Text that goes into a page: escaped, with nothing in it that a reader could not see."""

from html import escape
from typing import NewType

Html = NewType("Html", str)  # escaped already; any other text goes through `escaped`

# What has no picture of its own gets one: a control character, half of a surrogate pair.
_SHOWN = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"} | {0x7F: 0x2421}
_SHOWN |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD) | dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)


def visible(text: str) -> str:
    """The text without control characters: a model may write anything, and a terminal or file must bear it.

    >>> visible("a\\x1b[31mb\\r\\nc\\ud800")
    'a␛[31mb\\nc�'
    """
    return text.replace("\r\n", "\n").translate(_SHOWN)


def escaped(text: object) -> Html:
    """Text as HTML, good between tags and within the quotes of an attribute.

    >>> escaped('</script><a href="x">&')
    '&lt;/script&gt;&lt;a href=&quot;x&quot;&gt;&amp;'
    """
    return Html(escape(visible(str(text)), quote=True))


def paragraph(text: str) -> Html:
    """One paragraph; Hebrew or Arabic in it keeps its own direction.

    >>> paragraph("1 < 2")
    '<p dir="auto">1 &lt; 2</p>'
    """
    return Html(f'<p dir="auto">{escaped(text)}</p>')


def joined(*parts: Html) -> Html:
    """Several parts, one below the other."""
    return Html("\n".join(part for part in parts if part))
