"""Models of another library, fused and written out: their output stays, and the weights are those they would return."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.observe.attention import captured
from headway.observe.weights import CapturedAttention
from tests.observe.counting import Counting
from tests.observe.foreign import NAMES, attentions_of, first_of, inputs_of, model_of
from tests.observe.layers import drawn


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_those_the_model_would_return(name: str) -> None:
    pytest.importorskip("transformers")
    inputs, eager = inputs_of(name), model_of(name, "eager")
    with torch.no_grad():
        wanted = attentions_of(eager(**inputs, output_attentions=True))
    for model in (eager, model_of(name, "sdpa")):
        for learning in (False, True):
            with torch.set_grad_enabled(learning):
                off = first_of(model(**inputs))
                with captured(model) as found, Counting() as counted:
                    on = first_of(model(**inputs))
            assert torch.equal(on, off)
            assert len(found) == len(wanted)
            for one, its in zip(found, wanted, strict=True):
                # These two take their softmax in float32 where they write it out.
                close = 1e-6 if name in ("llama", "vit") else 1e-10
                torch.testing.assert_close(one.weights().double(), its.double(), rtol=0, atol=close)
        assert ("_scaled_dot_product_flash_attention_for_cpu" in counted.names) == (model is not eager)


def test_names_are_those_of_the_modules() -> None:
    pytest.importorskip("transformers")
    model = model_of("t5")
    with torch.no_grad(), captured(model) as found:
        model(**inputs_of("t5"))
    blocks = [f"decoder.block.{place}.layer" for place in range(2)]
    assert [one.name for one in found][2:] == [
        f"{b}.{k}" for b in blocks for k in ("0.SelfAttention", "1.EncDecAttention")
    ]
    assert [one.shape for one in found[1:4]] == [(2, 4, 23, 23), (2, 4, 13, 13), (2, 4, 13, 23)]


def encoder_of(norm_first: bool = False, activation: str = "relu") -> nn.Module:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        44, 4, 61, batch_first=True, norm_first=norm_first, activation=activation, dropout=0.1
    )
    for part in layer.parameters():
        part.data += 0.1 * torch.randn(part.shape)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).eval().double()


def written(model: nn.Module, x: Tensor, **more: Tensor) -> tuple[Tensor, list[CapturedAttention]]:
    """The slow path of the same: it learns, so that torch does not take the fast one."""
    with torch.enable_grad(), captured(model) as found:
        out = model(x, **more)
    return out.detach(), found


CAUSAL = torch.ones(23, 23, dtype=torch.bool).triu(1)
PADDED = torch.arange(23) >= torch.tensor([[23], [17]])
MASKS: dict[str, dict[str, Tensor]] = {
    "none": {},
    "causal": {"mask": CAUSAL},
    "padded": {"src_key_padding_mask": PADDED},
    "both": {"mask": CAUSAL, "src_key_padding_mask": PADDED},
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("norm_first", [False, True])
def test_the_fused_layers_of_torch(norm_first: bool, masks: str) -> None:
    model, x, more = encoder_of(norm_first), drawn(2, 23, 44).double(), MASKS[masks]
    with torch.no_grad():
        off = model(x, **more)
        with captured(model) as found, Counting() as counted:
            on = model(x, **more)
    assert "_transformer_encoder_layer_fwd" in counted.names and torch.equal(on, off)
    assert [one.name for one in found] == ["layers.0.self_attn", "layers.1.self_attn"]
    _, slow = written(model, x, **more)
    real = ~PADDED[:, None, :, None] if "padding" in str(list(more)) else torch.tensor(True)
    for one, other in zip(found, slow, strict=True):
        difference = (one.weights() - other.weights()).where(real, 0.0)
        assert one.shape == other.shape == (2, 4, 23, 23) and difference.abs().max() < 1e-10


@pytest.mark.parametrize("need", [False, True])
@pytest.mark.parametrize("learning", [False, True])
def test_torch_attention(learning: bool, need: bool) -> None:
    model, x = nn.MultiheadAttention(44, 4, batch_first=True).double().eval(), drawn(2, 23, 44).double()
    with torch.set_grad_enabled(learning):
        off, weights = model(x, x, x, key_padding_mask=PADDED, average_attn_weights=False)
        off = off if need else model(x, x, x, key_padding_mask=PADDED, need_weights=False)[0]
        with captured(model) as found, Counting() as counted:
            on, _ = model(x, x, x, key_padding_mask=PADDED, need_weights=need)
    assert torch.equal(on, off) and ("_native_multi_head_attention" in counted.names) != learning
    torch.testing.assert_close(found[0].weights(), weights.detach(), rtol=0, atol=1e-10)


class Bare(nn.Module):
    num_heads = 3

    def forward(self, q: Tensor, k: Tensor, **more: object) -> Tensor:
        return F.scaled_dot_product_attention(q, k, k, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("axes", [2, 3, 4, 5])
def test_a_kernel_with_any_number_of_axes(axes: int) -> None:
    front = (2, 5, 3)[5 - axes :]
    q, k, model = drawn(*front, 7, 11).double(), drawn(*front, 13, 11, seed=2).double(), Bare()
    table = drawn(*front, 7, 13, seed=3) > -0.5
    for more in (
        {},
        {"attn_mask": table},
        {"attn_mask": table[(0,) * len(front)]},
        {"is_causal": True},
        {"scale": 0.7},
    ):
        with captured(model) as found:
            model(q, k, **more)
        mask = torch.ones(7, 13, dtype=torch.bool).tril() if "is_causal" in more else more.get("attn_mask")
        scores = q @ k.mT * more.get("scale", 11**-0.5)
        scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)  # type: ignore[operator]
        torch.testing.assert_close(found[0].weights().reshape(scores.shape), scores.softmax(-1), rtol=0, atol=1e-12)
