"""Embeddings that are narrower than the stack (OPT): what stands in padding reaches neither map."""

import torch

from headway.presets.decoders import opt
from tests.fresh import fresh


def gradients(padded: bool) -> dict[str, torch.Tensor]:
    sizes = dict(vocabulary=11, width=15, heads=3, layers=2, length=13, embedding_width=7)
    model = fresh(opt(dropout=0.0, tied=False, **sizes)).double()
    with torch.no_grad():
        model.tokens.weight[0] = torch.nan
    tokens = torch.tensor([[0, 0, 5, 3, 7] if padded else [5, 3, 7]])
    model(tokens, keep=tokens != 0)[:, -3:].square().sum().backward()
    return {name: map.grad for name, map in model.named_parameters() if name.startswith("project")}


def test_what_stands_in_padding_reaches_no_gradient_of_the_maps() -> None:
    plain, padded = gradients(False), gradients(True)
    assert set(plain) == {"project_in.weight", "project_out.weight"}
    for name, found in padded.items():
        assert torch.allclose(found, plain[name], rtol=0, atol=1e-12), name
