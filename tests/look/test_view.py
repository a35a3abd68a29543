"""What `headway.show` gives: exact weights, a page in a frame, files written whole."""

import html
from pathlib import Path

import pytest
import torch

import headway
from headway.look.view import View
from tests.look.reading import made

HOSTILE = '</script><script>alert("x")</script>"><b>'


@pytest.fixture(scope="module")
def view() -> View:
    return headway.show(made.language(), "the cat sat on the mat", heads=[0, 2], rows=range(1, 5), lens=False)


def test_weights_are_exact_and_of_what_was_asked(view: View) -> None:
    model, tokenizer = made.language()
    calls = []
    handle = model.stack.blocks[1].attention.core.register_forward_hook(lambda _, args, __: calls.append(args[0]))
    with torch.no_grad():
        model(torch.tensor([tokenizer.encode("the cat sat on the mat")]))
    handle.remove()
    q, k = calls[0].q[0, 2].double(), calls[0].k[0, 2].double()
    scores = (q @ k.mT / 5**0.5).masked_fill(torch.ones(6, 6).triu(1).bool(), float("-inf"))
    expected = scores.softmax(-1).float()
    assert view.weights(1, 2).shape == (4, 6)
    assert (view.weights(1, 2) - expected[1:5]).abs().max() < 1e-6
    assert (view.weights(1, 2, slice(2, 4)) - expected[2:4]).abs().max() < 1e-6
    packed = view.look.layers[1].data
    assert abs(packed.row(1, 0) - expected[1].numpy()).max() < 1e-3
    with pytest.raises(ValueError, match="no head 1 in layer 0: it holds 0, 2"):
        view.weights(0, 1)
    with pytest.raises(ValueError, match="no layer 2: there are 2"):
        view.weights(2, 0)


def test_heads_and_the_drawing(view: View) -> None:
    assert [(one.label, one.head) for one in view.heads()] == [("0", 0), ("0", 2), ("1", 0), ("1", 2)]
    assert repr(view) == "View('Language', 2 layers, 4 heads; text of 6 tokens)"
    assert "decoder 1" in str(view)


def test_a_notebook_gets_a_frame_that_can_do_nothing_but_draw() -> None:
    model, _ = made.language()
    view = headway.show(model, inputs=torch.tensor([1, 2, 3]), tokens=[HOSTILE, "b", "c"], lens=False)
    shown = view._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts" ') and shown.count("<") == 2
    page = html.unescape(shown.partition('srcdoc="')[2].partition('"')[0])
    assert page.startswith("<!DOCTYPE html>") and HOSTILE not in page
    assert "default-src 'none'" in page


def test_files(view: View, tmp_path: Path) -> None:
    assert view.save(tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert view.png(str(tmp_path / "heads.svg")).read_text(encoding="utf-8").startswith("<?xml")
    for write in (view.save, view.png):
        with pytest.raises(ValueError, match=r"cannot write .*no/page.svg: the directory .*no does not exist"):
            write(tmp_path / "no" / "page.svg")
        with pytest.raises(ValueError, match=r"is a directory: name a file in it"):
            write(str(tmp_path))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["heads.svg", "page.html"]
