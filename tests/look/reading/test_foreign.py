"""Other people's models: their tokens, which attention is which, and weights as they themselves give them."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

from headway.look.reading import ModelInputs, read
from headway.look.view import look_at, view_sample
from headway.observe.weights import Selection
from tests.look.reading.made import pieces, theirs


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize(("kind", "side"), [("gpt2", "decoder"), ("bert", "encoder")])
def test_weights_are_those_that_the_model_gives_itself(kind: str, side: str, attention: str) -> None:
    tokenizer, model = pieces(kind), theirs(kind, attention).train()
    found = view_sample(read(model, ModelInputs("the cat sat on"), tokenizer=tokenizer))
    assert model.training
    assert [(one.kind, one.label) for one in found.look.layers] == [(side, "0"), (side, "1")]
    eager = theirs(kind, "eager").eval()
    own = eager(**tokenizer("the cat sat on", return_tensors="pt"), output_attentions=True).attentions
    for one, expected in zip(found.attentions, own, strict=True):
        assert (one.weights() - expected).abs().max() < 1e-6
    assert found.look.lens is not None and len(found.look.lens.depths) == 3


def test_a_model_that_translates_reads_a_target_or_writes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.look.reading.foreign.NEW", 5)
    tokenizer, model = pieces("t5"), theirs("t5")
    look = look_at(read(model, ModelInputs("the cat", "a dog"), tokenizer=tokenizer))
    assert [side.name for side in look.sides] == ["source", "target"]
    assert look.sides[1].tokens[0] == "<pad>" and "".join(look.sides[1].tokens[1:]) == " a dog"
    assert look.sides[1].special == (0,)
    kinds = [(one.kind, one.label, one.queries, one.keys) for one in look.layers]
    assert kinds[:2] == [("encoder", "0", 0, 0), ("encoder", "1", 0, 0)]
    assert kinds[2:] == [(kind, str(at), 1, keys) for at in (0, 1) for kind, keys in (("decoder", 1), ("cross", 0))]
    written = look_at(read(model, ModelInputs("the cat"), tokenizer=tokenizer), selection=Selection((5,)), lens=False)
    assert (written.layers[0].kind, written.layers[0].label) == ("cross", "1")
    assert 2 <= len(written.sides[1].tokens) <= 6
    assert written.notes == ("The target was written by the model itself: the likeliest token each time.",)


def test_patches_behind_a_class_token() -> None:
    look = look_at(read(theirs("vit"), ModelInputs(inputs={"pixel_values": torch.randn(1, 3, 15, 15)})))
    (side,) = look.sides
    assert (side.grid, side.extra, side.tokens[:2], len(side.tokens)) == ((3, 3), 1, ("[class]", "1,1"), 10)
    assert side.picture is not None and side.picture.startswith("data:image/png")


def test_a_module_of_torch_with_names_for_its_places() -> None:
    layer = nn.TransformerEncoderLayer(12, 3, 13)
    look = look_at(
        read(
            nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
            ModelInputs(inputs=torch.randn(5, 1, 12), tokens=list("abcde")),
        )
    )
    assert look.sides[0].tokens == tuple("abcde")
    both = nn.Transformer(12, 2, 1, 1, 13, batch_first=True)
    look = look_at(read(both, ModelInputs(inputs={"src": torch.randn(1, 5, 12), "tgt": torch.randn(1, 7, 12)})))
    sizes = [(one.kind, *(len(look.sides[at].tokens) for at in (one.queries, one.keys))) for one in look.layers]
    assert sizes == [("encoder", 5, 5), ("decoder", 7, 7), ("cross", 7, 5)]


def test_a_sequence_before_its_batch() -> None:
    attention = nn.MultiheadAttention(12, 3)
    inputs = {name: torch.randn(count, 1, 12) for name, count in (("query", 5), ("key", 7), ("value", 7))}
    look = look_at(read(attention, ModelInputs(inputs=inputs)))
    assert look.subtitle == "1 layer, 3 heads; positions of 5 places, positions of 7 places"
    look = look_at(read(nn.TransformerEncoderLayer(12, 3, 13), ModelInputs(inputs=torch.randn(5, 2, 12))))
    assert [len(side.tokens) for side in look.sides] == [5]


class Joined(nn.Module):
    """Sees two tokens more than it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.attention = nn.Embedding(11, 6), nn.MultiheadAttention(6, 2, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = nn.functional.pad(self.embed(ids), (0, 0, 2, 0))
        return self.attention(x, x, x, need_weights=False)[0]


def test_places_that_nobody_has_named_get_numbers() -> None:
    look = look_at(read(Joined(), ModelInputs(inputs=torch.tensor([[1, 2, 3]]))))
    assert [side.tokens for side in look.sides] == [("1", "2", "3"), ("0", "1", "2", "3", "4")]
    assert (look.layers[0].queries, look.layers[0].keys) == (1, 1)


def test_a_tokenizer_makes_nothing_of_an_image(tmp_path: Path) -> None:
    Image.new("RGB", (7, 5)).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"comes with a .*Tokenizer.*, which makes nothing of an image: give a text"):
        read(theirs("gpt2"), ModelInputs(image=tmp_path / "a.png"), tokenizer=pieces("gpt2"))


def test_refusals() -> None:
    with pytest.raises(ValueError, match="Sequential has no attention to look at"):
        look_at(read(nn.Sequential(nn.Linear(3, 3)), ModelInputs(inputs=torch.randn(2, 3))))
    with pytest.raises(ValueError, match=r"let the function give the model and its tokenizer .*, or in Python pass"):
        read(theirs("gpt2"), ModelInputs("a"))
    with pytest.raises(ValueError, match="GPT2LMHeadModel reads one text: leave the pair out"):
        read(theirs("gpt2"), ModelInputs("the cat", "a dog"), tokenizer=pieces("gpt2"))
    assert read(theirs("bert"), ModelInputs("the cat", "a dog"), tokenizer=pieces("bert")).sides[0].tokens
    with pytest.raises(
        ValueError, match="GPT2LMHeadModel takes no 'foo': name inputs= as its forward does, such as in"
    ):
        read(theirs("gpt2"), ModelInputs(inputs={"foo": torch.tensor([[1, 2]])}))
    named = {"input_ids": torch.tensor([[1, 2]]), "atention_mask": torch.ones(1, 2)}
    with pytest.raises(ValueError, match=r"takes no 'atention_mask' .did you mean attention_mask"):
        read(theirs("gpt2"), ModelInputs(inputs=named))
    with pytest.raises(ValueError, match=r"the text has \d+ tokens, and GPT2LMHeadModel has positions for 29: shorten"):
        look_at(read(theirs("gpt2"), ModelInputs("the cat " * 31), tokenizer=pieces("gpt2")))
    with pytest.raises(ValueError, match="no token that GPT2LMHeadModel could read"):
        read(theirs("gpt2"), ModelInputs(""), tokenizer=pieces("gpt2"))
    with pytest.raises(ValueError, match=r"Joined, called with inputs \(1, 3\), failed: IndexError"):
        look_at(read(Joined(), ModelInputs(inputs=torch.tensor([[1, 2, 30]]))))
