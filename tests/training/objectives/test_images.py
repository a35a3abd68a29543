"""What a model of images is asked: the class."""

import pytest
import torch
import torch.nn.functional as F

from headway.config.vision import DaViTConfig
from headway.models.davit import DaViT
from headway.models.vit import Vision
from headway.presets.vision import vit
from headway.training.objectives import image_loss
from tests.fresh import fresh

CLASSES = 7


def model(kind: str) -> Vision | DaViT:
    if kind == "davit":
        config = DaViTConfig(depths=(1, 1), widths=(4, 8), heads=(2, 2), image=(50, 30), window=3, classes=CLASSES)
    else:
        config = vit(width=12, heads=3, layers=2, image=10, patch=5, classes=CLASSES)
        if kind == "deit":
            config = config.model_copy(update={"distilled": True, "teacher": True})
    return fresh(config, std=0.3).double().eval()


def batch(net: Vision | DaViT) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    size = (50, 30) if isinstance(net, DaViT) else (10, 10)
    return {
        "images": torch.randn(5, 3, *size, generator=draw, dtype=torch.float64),
        "label": torch.randint(CLASSES, (5,), generator=draw),
    }


@pytest.mark.parametrize("kind", ["vit", "davit"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_it_is_the_cross_entropy_of_the_classifier(kind: str, smoothing: float) -> None:
    net = model(kind)
    inputs = batch(net)
    found = image_loss(net, inputs, smoothing=smoothing)
    logits = net(inputs["images"])
    expected = F.cross_entropy(logits, inputs["label"], label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(found.losses["loss"], expected, rtol=1e-12, atol=0)
    assert int(found.hits["loss"]) == int((logits.argmax(-1) == inputs["label"]).sum())


def test_both_heads_of_a_model_with_a_teacher_learn_the_label() -> None:
    net = model("deit")
    assert isinstance(net, Vision) and net.head is not None and net.teacher_head is not None
    inputs = batch(net)
    found = image_loss(net, inputs).losses["loss"]
    hidden = net.hidden_states(inputs["images"])
    answers = net.head(hidden[:, 0]), net.teacher_head(hidden[:, 1])
    losses = [F.cross_entropy(logits, inputs["label"], reduction="sum") for logits in answers]
    torch.testing.assert_close(found, (losses[0] + losses[1]) / 2, rtol=1e-12, atol=0)


def test_a_model_without_classes_says_so() -> None:
    net = fresh(vit(width=12, heads=3, layers=1, image=10, patch=5, classes=0)).double()
    with pytest.raises(ValueError, match="no classifier"):
        image_loss(net, batch(net))
