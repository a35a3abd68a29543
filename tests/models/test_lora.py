"""Adapters: the equation on slices of one map, what is trained, and rows that are not finite."""

import pytest
import torch

from headway.config.train import LoraConfig
from headway.models import build
from headway.models.lora import LoraLinear, adapters_of, add_lora, map_rows, trainable
from headway.models.quantize import linear_maps
from headway.nn.layers import Linear
from headway.presets.llama import llama
from headway.presets.seq2seq import t5

SIZES = dict(layers=2, width=24, heads=4, kv_heads=1, hidden=13, vocabulary=17, length=11)


def tiny(**changed):
    return build(llama(**SIZES | changed), seed=5).double()


def shaken(model, seed: int = 3) -> None:
    """Adapters that change something: B begins at 0."""
    draw = torch.Generator().manual_seed(seed)
    for adapter in adapters_of(model).values():
        adapter.up.data = torch.randn(adapter.up.shape, generator=draw, dtype=torch.float64)


def test_adapters_begin_with_no_effect_and_then_add_their_product_to_their_rows() -> None:
    model, plain = tiny(), tiny()
    plain.load_state_dict(model.state_dict())
    tokens = torch.randint(0, 17, (2, 7))
    add_lora(model, LoraConfig(rank=2, alpha=3.0, on=("query", "value", "down")))
    assert torch.equal(model(tokens), plain(tokens))
    shaken(model)
    adapters = adapters_of(model)
    assert len(adapters) == 6
    for number, block in enumerate(plain.stack.blocks):
        place = f"stack.blocks.{number}"
        change = {name: 1.5 * one.up @ one.down for name, one in adapters.items() if name.startswith(place)}
        with torch.no_grad():  # 24 rows of queries, 6 of keys, 6 of values
            block.attention.qkv.weight[:24] += change[f"{place}.attention.query"]
            block.attention.qkv.weight[30:] += change[f"{place}.attention.value"]
            block.feedforward.down.weight += change[f"{place}.feedforward.down"]
    assert (model(tokens) - plain(tokens)).abs().max() < 1e-12
    assert (model(tokens) - tiny()(tokens)).abs().max() > 1e-3


def test_only_adapters_are_trained() -> None:
    model = tiny()
    add_lora(model, LoraConfig(rank=2, on=("key", "out", "gate", "up")))
    model.loss(torch.randint(0, 17, (2, 7))).backward()
    with_gradient = {name for name, one in model.named_parameters() if one.grad is not None}
    assert with_gradient and all(".adapters." in name for name in with_gradient)
    assert trainable(model) == 2 * 2 * ((24 + 6) + (24 + 24) + 2 * (24 + 13))


def test_dropout_acts_in_training_alone() -> None:
    model = tiny()
    add_lora(model, LoraConfig(rank=2, dropout=0.5))
    shaken(model)
    tokens = torch.randint(0, 17, (2, 7))
    assert torch.equal(model.eval()(tokens), model(tokens))
    assert not torch.equal(model.train()(tokens), model(tokens))


def test_a_source_has_adapters_of_keys_and_values() -> None:
    model = build(t5(width=10, hidden=7, layers=1, heads=2, head_width=5).replace(vocabulary=13))
    rows = {path: map_rows(parent, own, layer) for path, parent, own, layer in linear_maps(model)}
    assert rows["decoder.blocks.0.cross.key_value"] == {"key": 10, "value": 10}
    add_lora(model, LoraConfig(rank=2, on=("value",)))
    assert sorted(adapters_of(model)) == [
        "decoder.blocks.0.attention.value", "decoder.blocks.0.cross.value", "encoder.blocks.0.attention.value",
    ]  # fmt: skip


def test_a_row_that_is_not_finite_reaches_no_gradient_but_its_own() -> None:
    from headway.ops.nonfinite_rows import careful

    layer = LoraLinear(Linear(5, 7), {"query": 3, "key": 4}, ["key"], LoraConfig(rank=2)).double()
    x = torch.randn(3, 5, dtype=torch.float64)
    x[1, 2] = torch.nan
    with careful():
        y = layer(x)
    assert y[1].isnan().all() and y[[0, 2]].isfinite().all()
    y[[0, 2]].sum().backward()
    assert layer.adapters["key"].up.grad.isfinite().all()


def test_a_map_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"lora.on names gate, and this Language has no such map; it has query, key"):
        add_lora(build("gpt2", layers=1, width=12, heads=3, vocabulary=5, length=4), LoraConfig(rank=1, on=("gate",)))
    with pytest.raises(ValueError, match="there is no map 'c_attn' for adapters; there are query, key"):
        LoraConfig(rank=1, on="query,c_attn")
