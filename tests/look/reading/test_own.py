"""Every kind of our models: what it reads, what its attentions are between, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from headway.config.vision import Images
from headway.look.reading import ModelInputs, numbers, read
from headway.look.reading.images import on_canvas, pixels_of
from headway.look.reading.texts import target_cut, target_side
from headway.look.record import Look
from headway.look.view import look_at, view_sample
from headway.observe.weights import Selection
from headway.presets.seeds import udl_channels
from tests.fresh import fresh
from tests.look.reading import made


def layers(look: Look) -> list[tuple[str, str, str, str]]:
    """Kind, label and the names of both sides of each layer."""
    return [(one.kind, one.label, look.sides[one.queries].name, look.sides[one.keys].name) for one in look.layers]


def test_a_language_model_as_it_was_afterwards() -> None:
    model, tokenizer = made.language()
    model.train()
    model.stack.eval()
    sample = read(model, ModelInputs("the cat sat"), tokenizer=tokenizer, title="tiny")
    found = view_sample(sample)
    assert model.training and not model.stack.training
    assert layers(found.look) == [("decoder", "0", "text", "text"), ("decoder", "1", "text", "text")]
    assert (found.look.title, found.look.subtitle) == ("tiny", "2 layers, 6 heads; text of 3 tokens")
    tokens = torch.tensor([tokenizer.encode("the cat sat")])
    with torch.no_grad():
        own = model.eval()(tokens).softmax(-1)[0]
    lens = found.look.lens
    assert lens is not None and lens.depths == ("embedding", "1", "2")
    assert np.allclose(lens.probabilities[-1], own.topk(5).values.numpy(), atol=1e-6)
    assert lens.tokens[-1][1][0] == tokenizer.decode([int(own[1].argmax())])


def test_only_what_is_asked_keeps_its_number() -> None:
    model, tokenizer = made.language(layers=3)
    sample = read(model, ModelInputs("the cat sat on the mat"), tokenizer=tokenizer)
    look = look_at(sample, selection=Selection((2,), (0, 2), (1, 2)), lens=True)
    (layer,) = look.layers
    assert (layer.label, layer.heads, layer.rows) == ("2", (0, 2), (1, 2))
    assert look.lens is not None and look.lens.places == (1, 2)
    for selection, said in [
        (Selection((2, 3, 5)), "Language has layers 0 to 2, in the order in which they run: 3, 5 cannot be shown"),
        (Selection(heads=(3,)), "heads 0 to 2 and rows 0 to 5"),
        (Selection(rows=(6, 1)), "heads 0 to 2 and rows 0 to 5"),
    ]:
        with pytest.raises(ValueError, match=said):
            look_at(sample, selection=selection)


def test_heads_and_rows_that_no_layer_has_are_named() -> None:
    model, tokenizer = made.language()
    look = look_at(
        read(model, ModelInputs("the cat sat"), tokenizer=tokenizer), selection=Selection(None, (0, 7), (1, 100))
    )
    assert [(one.heads, one.rows) for one in look.layers] == [((0,), (1, 2))] * 2
    said = ("Layers have heads 0 to 2: 7 is not there.", "Layers have rows 0 to 2: 3 to 100 are not there.")
    assert look.notes == said
    whole = look_at(
        read(model, ModelInputs("the cat sat"), tokenizer=tokenizer), selection=Selection(None, (0, 2), (0, 3))
    )
    assert whole.notes == ()


def test_a_pair_has_types_and_changes_what_is_seen() -> None:
    model, tokenizer = made.masked(types=2)
    one = view_sample(read(model, ModelInputs("the cat", "a dog"), tokenizer=tokenizer))
    with torch.no_grad():
        model.types.weight[1] += torch.randn(15)
    other = view_sample(read(model, ModelInputs("the cat", "a dog"), tokenizer=tokenizer))
    assert layers(one.look) == [("encoder", "0", "text", "text"), ("encoder", "1", "text", "text")]
    assert not torch.allclose(one.attentions[0].weights(), other.attentions[0].weights(), atol=1e-3)
    assert one.look.lens is not None, "it has a head for words"
    empty = look_at(read(model, ModelInputs(""), tokenizer=tokenizer))
    assert empty.sides[0].tokens == ("[CLS]", "[SEP]")


@pytest.mark.parametrize("kind", [made.seq2seq, made.recurrent])
def test_a_source_and_a_target(kind: Any) -> None:
    model, tokenizer = kind()
    look = look_at(read(model, ModelInputs("the cat sat", "a dog"), tokenizer=tokenizer))
    source, target = look.sides
    assert source.tokens == ("the", " cat", " sat", "<|end|>") and source.special == (3,)
    assert target.tokens == ("<|start|>", "a", " dog") and target.special == (0,), "its end is what it should say last"
    own = [("encoder", str(at), "source", "source") for at in (0, 1)]
    decoder = [
        (kind, str(at), "target", keys) for at in (0, 1) for kind, keys in (("decoder", "target"), ("cross", "source"))
    ]
    alone = [("cross", "0", "target", "source")]
    assert layers(look) == (alone if model.config.kind == "recurrent" else own + decoder)
    by_number = look_at(read(model, ModelInputs("the cat sat", tokenizer.encode("a dog")), tokenizer=tokenizer))
    assert by_number.sides == look.sides
    with pytest.raises(ValueError, match="reads a source and a target"):
        read(model, ModelInputs("the cat"), tokenizer=tokenizer)


def test_a_target_begins_with_no_text_whatever_the_tokenizer_says() -> None:
    cut = target_cut([5, 6, 1], numbers(7), 3, (1,), "a model")
    side = target_side(numbers(7), cut)
    assert (side.tokens, side.special) == (("3", "5", "6"), (0,))
    with pytest.raises(ValueError, match="does not say which token its targets begin with"):
        target_cut([5], numbers(7), None, (), "a model")


def test_rows_of_the_longer_text_alone() -> None:
    model, tokenizer = made.seq2seq()
    sample = read(model, ModelInputs("the cat sat on", "a"), tokenizer=tokenizer)
    look = look_at(sample, selection=Selection(rows=(3, 2)))
    assert [one.kind for one in look.layers] == ["encoder", "encoder"]
    assert look.notes == ("4 of 6 layers have none of these heads and rows.",), "the source has these rows"


def picture(path: Path, rows: int, columns: int) -> np.ndarray:
    pixels = np.random.RandomState(5).randint(0, 256, (rows, columns, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return pixels


def test_an_image_is_shown_as_the_model_sees_it(tmp_path: Path) -> None:
    from base64 import b64decode
    from io import BytesIO

    pixels = picture(tmp_path / "a.png", 15, 20)
    look = look_at(read(made.vision(), ModelInputs(image=tmp_path / "a.png")))
    (side,) = look.sides
    assert (side.grid, side.extra, side.special) == ((3, 4), 1, (0,))
    assert side.tokens[:3] == ("[class]", "1,1", "1,2") and side.tokens[-1] == "3,4"
    assert side.picture is not None
    shown = np.asarray(Image.open(BytesIO(b64decode(side.picture.partition(",")[2]))))
    assert np.array_equal(shown, pixels)
    assert layers(look) == [("encoder", "0", "image", "image"), ("encoder", "1", "image", "image")]
    assert look.lens is None and look.notes == ()


def test_davit_has_a_grid_for_each_stage_and_channels(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 26, 18)
    look = look_at(read(made.davit(), ModelInputs(image=tmp_path / "a.png")))
    assert [(side.name, side.grid) for side in look.sides[:2]] == [
        ("image, stage 1", (9, 6)),
        ("image, stage 2", (6, 3)),
    ]
    assert [len(side.tokens) for side in look.sides[2:]] == [3, 5], "channels of a group"
    first, second = look.sides[:2]
    assert first.tokens[4:7] == ("1,5", "padding 1,6", "2,1") and first.tokens[7 * 6] == "padding 8,1"
    assert [len(side.special) for side in (first, second)] == [9 * 6 - 7 * 5, 6 * 3 - 4 * 3]
    (note,) = look.notes
    assert "stage 1 from 7 x 5 to 9 x 6, 2 from 4 x 3 to 6 x 3 patches" in note
    assert [(one.kind, one.label, one.queries) for one in look.layers] == [
        ("encoder", "0", 0), ("channels", "0", 2), ("encoder", "1", 1), ("channels", "1", 3),
    ]  # fmt: skip


def test_pixels_come_back_from_their_numbers() -> None:
    images = Images(mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.5))
    pixels = np.random.RandomState(2).randint(0, 256, (5, 7, 3))
    numbers_read = (pixels / 255 - images.mean) / images.std
    found = pixels_of(torch.from_numpy(numbers_read.transpose(2, 0, 1)), images)
    assert np.array_equal(found, pixels)
    wide = on_canvas(found, (6, 11))
    assert wide.shape == (6, 11, 4) and np.array_equal(wide[:5, :7, :3], pixels)
    assert (wide[:5, :7, 3] == 255).all() and (wide[5:] == 0).all() and (wide[:, 7:] == 0).all()


def test_vectors_are_read_in_python() -> None:
    model = fresh(udl_channels(width=11, groups=1, length=7))
    look = look_at(read(model, ModelInputs(inputs=torch.randn(7, 11))))
    assert layers(look) == [("channels", "0", "channels", "channels")]
    with pytest.raises(ValueError, match=r"reads vectors and no text: .*headway.show\(model, inputs=x\)"):
        read(model, ModelInputs("a text"))


def test_numbers_of_tokens_and_names_for_them() -> None:
    model, _ = made.language()
    tokens = torch.tensor([[1, 2, 3], [4, 5, 6]])
    look = look_at(read(model, ModelInputs(inputs=tokens)))
    assert look.sides[0].tokens == ("1", "2", "3") and look.notes == ("The first of 2 inputs is shown.",)
    named = look_at(read(model, ModelInputs(inputs=tokens[0], tokens=["x", "<b>", "z"])))
    assert named.sides[0].tokens == ("x", "<b>", "z")
    with pytest.raises(ValueError, match="2 names in tokens=, and the text has 3 places"):
        read(model, ModelInputs(inputs=tokens[0], tokens=["x", "y"]))
    with pytest.raises(ValueError, match="numbers of tokens"):
        read(model, ModelInputs(inputs=torch.ones(3)))


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    model, tokenizer = made.language()
    for given, words, said in [
        (
            ModelInputs("the cat " * 31),
            tokenizer,
            r"the text has \d+ tokens, and Language has positions for 31: shorten it",
        ),
        (ModelInputs(""), tokenizer, "the text has no token that Language could read"),
        (ModelInputs(), tokenizer, "Language reads text, and none was given"),
        (ModelInputs("a", "b"), tokenizer, "Language reads one text"),
        (ModelInputs(image=tmp_path), tokenizer, "Language reads text, and an image was given"),
        (ModelInputs("a"), None, "Language has no tokenizer"),
    ]:
        with pytest.raises(ValueError, match=said):
            read(model, given, tokenizer=words)
    with pytest.raises(ValueError, match="reads an image, and a text was given"):
        read(made.vision(), ModelInputs("a text"))
    with pytest.raises(ValueError, match="reads an image, and none was given"):
        read(made.vision(), ModelInputs())
    with pytest.raises(ValueError, match="leave the text and the image out"):
        ModelInputs("a", inputs=torch.ones(3))


def test_positions_that_are_computed_have_no_end() -> None:
    model, tokenizer = made.language()
    config = model.config.replace(positions="sinusoidal", length=2)
    look = look_at(read(fresh(config), ModelInputs("the cat sat"), tokenizer=tokenizer))
    assert look.notes == ("The text has 3 tokens, and the model was made for 2.",)


def test_words_have_tokens_by_chance_where_a_preset_has_no_tokenizer() -> None:
    model, _ = made.language()
    look = look_at(read(model, ModelInputs("to be, or not"), tokenizer=numbers(model.config.vocabulary)))
    assert look.sides[0].tokens == ("to", " be", ",", " or", " not")
