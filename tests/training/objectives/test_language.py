"""What a language model is asked: the next token, in windows and in packed documents."""

import pytest
import torch
import torch.nn.functional as F

from headway.models.language import Language
from headway.ops.loss import IGNORED
from headway.presets.gpt2 import gpt2
from headway.presets.llama import llama
from headway.training.objectives import language_loss
from tests.fresh import fresh

V, L = 17, 11


def model(kind: str) -> Language:
    if kind == "gpt":
        config = gpt2(width=12, layers=2, heads=3).model_copy(update={"vocabulary": V, "length": L})
    else:
        config = llama(width=12, layers=2, heads=3, kv_heads=1, hidden=19, vocabulary=V, length=L, tied=False)
    return fresh(config, std=0.3).double().eval()


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("kind", ["gpt", "llama"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_windows(kind: str, smoothing: float) -> None:
    net, text = model(kind), tokens(3, L + 1)
    inputs = {"tokens": text[:, :-1], "targets": text[:, 1:].clone()}
    inputs["targets"][1, 4] = IGNORED
    found = language_loss(net, inputs, smoothing=smoothing)
    logits = net(inputs["tokens"]).flatten(0, 1)
    expected = F.cross_entropy(logits, inputs["targets"].flatten(), label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(found.losses["loss"], expected, rtol=1e-12, atol=0)
    assert int(found.hits["loss"]) == int((logits.argmax(-1) == inputs["targets"].flatten()).sum())
    weights = list(net.parameters())
    pairs = zip(torch.autograd.grad(found.losses["loss"], weights), torch.autograd.grad(expected, weights), strict=True)
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", ["gpt", "llama"])
def test_packed_documents_are_as_if_each_stood_alone(kind: str) -> None:
    net, lengths = model(kind), [2, 5, 5, 1, 7]
    texts = [tokens(length + 1) for length in lengths]
    row = {
        "tokens": torch.cat([text[:-1] for text in texts])[None],
        "targets": torch.cat([text[1:] for text in texts])[None],
        "lengths": torch.tensor(lengths),
    }
    found = language_loss(net, row)
    apart = [language_loss(net, {"tokens": text[None, :-1], "targets": text[None, 1:]}) for text in texts]
    expected = torch.stack([one.losses["loss"] for one in apart]).sum()
    torch.testing.assert_close(found.losses["loss"], expected, rtol=1e-12, atol=0)
    without = {name: row[name] for name in ("tokens", "targets")}
    net = fresh(net.config.model_copy(update={"length": 20}), std=0.3).double().eval()
    assert abs(language_loss(net, without).losses["loss"] - language_loss(net, row).losses["loss"]) > 1e-3


def test_parts_of_a_batch_add_up() -> None:
    net, text = model("gpt"), tokens(4, L + 1)
    inputs = {"tokens": text[:, :-1], "targets": text[:, 1:]}
    whole = language_loss(net, inputs)
    halves = [language_loss(net, {name: value[rows] for name, value in inputs.items()}) for rows in ([0, 1], [2, 3])]
    torch.testing.assert_close(
        whole.losses["loss"], halves[0].losses["loss"] + halves[1].losses["loss"], rtol=1e-12, atol=0
    )
    assert whole.hits["loss"] == halves[0].hits["loss"] + halves[1].hits["loss"]
