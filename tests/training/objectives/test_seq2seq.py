"""What an encoder-decoder is asked: the next token of the target, of real tokens alone."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config.text import RecurrentConfig
from headway.models.recurrent import Recurrent
from headway.models.seq2seq import Seq2Seq
from headway.ops.loss import IGNORED
from headway.presets.seq2seq import bart, marian, t5
from headway.training.objectives import seq2seq_loss
from tests.fresh import fresh

V = 17
MODELS = {
    "bart": lambda: bart(width=12, layers=2, heads=3).model_copy(update={"vocabulary": V, "length": 23}),
    "marian": lambda: marian(width=12, layers=2, heads=3, vocabulary=V),
    "t5": lambda: t5(width=12, layers=2, heads=3, head_width=5, hidden=19).model_copy(update={"vocabulary": V}),
    "recurrent": lambda: RecurrentConfig(source_vocabulary=V, vocabulary=V, width=5, hidden=7),
}


def model(kind: str) -> Seq2Seq | Recurrent:
    return fresh(MODELS[kind](), std=0.3).double().eval()


def batch() -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(3)
    source, text = torch.randint(V, (3, 7), generator=draw), torch.randint(V, (3, 6), generator=draw)
    source_keep = torch.arange(7) < torch.tensor([[7], [4], [5]])
    target_keep = torch.arange(5) < torch.tensor([[3], [5], [2]])
    targets = text[:, 1:].masked_fill(~target_keep, IGNORED)
    return {
        "source": source, "source_keep": source_keep, "target": text[:, :-1], "targets": targets,
        "target_keep": target_keep,
    }  # fmt: skip


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_it_is_the_cross_entropy_of_the_models_logits(kind: str, smoothing: float) -> None:
    net, inputs = model(kind), batch()
    if isinstance(net, Seq2Seq) and net.head_bias is not None:
        torch.nn.init.normal_(net.head_bias)
    found = seq2seq_loss(net, inputs, smoothing=smoothing)
    logits = net(
        inputs["source"], inputs["target"], source_keep=inputs["source_keep"], target_keep=inputs["target_keep"]
    ).flatten(0, 1)
    targets = inputs["targets"].flatten()
    expected = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(found.losses["loss"], expected, rtol=1e-12, atol=0)
    assert int(found.hits["loss"]) == int((logits.argmax(-1) == targets).sum())
    weights = list(net.parameters())
    for ours, theirs in zip(
        torch.autograd.grad(found.losses["loss"], weights), torch.autograd.grad(expected, weights), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", MODELS)
def test_padding_changes_nothing(kind: str) -> None:
    net, inputs = model(kind), batch()
    total = seq2seq_loss(net, inputs).losses["loss"]
    apart = []
    for row in range(3):
        long, short = int(inputs["source_keep"][row].sum()), int(inputs["target_keep"][row].sum())
        cut = {name: value[row : row + 1, : long if "source" in name else short] for name, value in inputs.items()}
        apart.append(seq2seq_loss(net, cut).losses["loss"])
    torch.testing.assert_close(total, torch.stack(apart).sum(), rtol=1e-11, atol=0)
