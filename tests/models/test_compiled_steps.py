"""Decoding steps by compiled programs against the layers, which are the truth."""

import copy
import gc
import weakref
from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from headway.models import build as build_model
from headway.models import compiled_steps
from headway.models.language import Language
from headway.models.quantize import quantize_model
from headway.native import build
from headway.native.program import MOST_ROWS
from headway.nn.quantized import QuantizedLinear
from tests.decoding.tiny import CONFIGS, V, model

SERVED = ["gpt2", "llama", "opt", "int8", "groups"]
LEFT = ["window", "gemma", "neox", "projected"]  # to the layers


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether each step was compiled."""
    made: list[bool] = []
    read = compiled_steps.CompiledSteps.read

    def counted(self: compiled_steps.CompiledSteps, *given: object) -> Tensor | None:
        found = read(self, *given)  # pyright: ignore[reportArgumentType]
        made.append(found is not None)
        return found

    monkeypatch.delenv("HEADWAY_NATIVE", raising=False)
    monkeypatch.setattr(compiled_steps.CompiledSteps, "read", counted)
    return made


@cache
def made(name: str) -> nn.Module:
    """The tiny models of decoding; those of 4 bits there have groups that no kernel reads."""
    if name != "groups":
        return model(name)
    torch.manual_seed(3)
    llama = build_model("tinyllama", layers=2, width=64, heads=4, kv_heads=2, hidden=96, vocabulary=V, length=41)
    return quantize_model(llama, "int4").double()


def fresh(name: str, dtype: torch.dtype = torch.float32) -> Language:
    return copy.deepcopy(made(name)).to(dtype)  # pyright: ignore[reportReturnType]


def steps(of: Language, prompt: Tensor, *, count: int = 5, keep: Tensor | None = None) -> Tensor:
    session, found = of.session(), []
    session.read(prompt, keep)
    for step in range(count):
        tokens = (torch.arange(len(prompt))[:, None] * 7 + step * 3) % V
        found.append(session.read(tokens))
    return torch.stack(found, 1)


def plainly(compute: Callable[[], Tensor]) -> Tensor:
    with build.switched_off():
        return compute()


@pytest.mark.parametrize("name", SERVED)
@pytest.mark.parametrize("rows", [1, 3, 13])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_steps_are_those_of_the_layers(name: str, rows: int, dtype: torch.dtype, calls: list[bool]) -> None:
    one, prompt = fresh(name, dtype), torch.randint(0, V, (rows, 6))
    found = steps(one, prompt)
    assert calls == [True] * 5
    right = plainly(lambda: steps(one, prompt))
    assert found.dtype == right.dtype
    exact = plainly(lambda: steps(copy.deepcopy(one).double(), prompt))
    bound = 2e-5 if dtype == torch.float32 else 0.2
    assert torch.allclose(found.double(), exact, atol=bound, rtol=0)
    if dtype == torch.bfloat16:  # activations of 32 bits: nearer to the truth than torch's of 16
        assert (found - exact).abs().mean() < (right - exact).abs().mean()


@pytest.mark.parametrize("name", SERVED)
@pytest.mark.parametrize("left", [True, False])
def test_padding(name: str, left: bool, calls: list[bool]) -> None:
    one, prompt = fresh(name), torch.randint(0, V, (3, 7))
    keep = torch.arange(7) < torch.tensor([7, 2, 4])[:, None]
    keep = keep.flip(1) if left else keep
    found = steps(one, prompt, keep=keep)
    assert calls == [True] * 5
    assert torch.allclose(found, plainly(lambda: steps(one, prompt, keep=keep)), atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", SERVED)
def test_a_row_is_the_same_in_any_company_bit_for_bit(name: str) -> None:
    one, prompt = fresh(name), torch.randint(0, V, (11, 5))
    together, alone = one.session(), one.session()
    together.read(prompt)
    alone.read(prompt)
    alone.select(torch.tensor([7]))
    longer = one.session()
    longer.read(torch.randint(0, V, (2, 9)))
    longer.join(together)  # row 7 is row 9 there, after four columns of padding
    for _ in range(4):
        tokens = torch.randint(0, V, (11, 1))
        more = torch.cat([torch.randint(0, V, (2, 1)), tokens])
        found, single = longer.read(more)[9], alone.read(tokens[7:8])[0]
        assert torch.equal(found, single)


@pytest.mark.parametrize("name", SERVED)
def test_new_numbers_are_packed_again(name: str, calls: list[bool]) -> None:
    one, prompt = fresh(name), torch.randint(0, V, (2, 4))
    before = steps(one, prompt)
    with torch.no_grad():
        down = one.stack.blocks[1].feedforward.down  # pyright: ignore
        (down.scale if isinstance(down, QuantizedLinear) else down.weight).mul_(4)  # pyright: ignore
    after = steps(one, prompt)
    assert not torch.allclose(before, after, atol=1e-3)
    assert torch.allclose(after, plainly(lambda: steps(one, prompt)), atol=2e-5, rtol=0)
    assert calls == [True] * 10 + [False] * 5

    def changed_between() -> Tensor:
        session = one.session()
        session.read(prompt)
        session.read(prompt[:, :1])
        with torch.no_grad():
            one.tokens.weight.mul_(0.5)
            found = session.read(prompt[:, :1])
            one.tokens.weight.mul_(2)
        return found

    assert torch.allclose(changed_between(), plainly(changed_between), atol=2e-5, rtol=0)
    assert calls[15:17] == [True, True]


def test_what_is_left_to_the_layers(calls: list[bool]) -> None:
    prompt, seen = torch.randint(0, V, (2, 4)), []
    one = fresh("gpt2")
    handle = one.stack.blocks[0].register_forward_hook(lambda *_: seen.append(True))
    steps(one, prompt)
    assert not any(calls) and len(seen) == 6
    handle.remove()
    steps(one.train(), prompt)
    steps(fresh("gpt2", torch.float64), prompt)
    steps(one.eval(), torch.randint(0, V, (MOST_ROWS + 1, 3)))
    for name in set(CONFIGS) & {"window", "linear"}:
        steps(fresh(name), prompt)
    one.stack.blocks[0].attention_norm = nn.LayerNorm(one.config.stack.block.width)
    steps(one, prompt)
    assert not any(calls)


def test_a_session_may_change_between_both_ways(calls: list[bool]) -> None:
    one, prompt = fresh("llama"), torch.randint(0, V, (3, 4))
    session, right = one.session(), one.session()
    session.read(prompt)
    plainly(lambda: right.read(prompt))
    for step in range(70):  # past the room that was reserved
        tokens = torch.randint(0, V, (3, 1))
        if len(session.lengths) and session.room == 0:
            break
        found = session.read(tokens) if step % 3 else plainly(lambda tokens=tokens: session.read(tokens))
        assert torch.allclose(found, plainly(lambda tokens=tokens: right.read(tokens)), atol=2e-5, rtol=0)
        assert session.lengths.tolist() == right.lengths.tolist()
    assert any(calls) and step > 20


@pytest.mark.parametrize("name", SERVED)
def test_what_is_not_finite_is_computed_with_care(name: str, calls: list[bool]) -> None:
    one, prompt = fresh(name), torch.randint(1, V, (3, 4))
    with torch.no_grad():
        one.tokens.weight[0, 3] = float("nan")
    tokens = torch.tensor([[5], [0], [7]])

    def read() -> Tensor:
        session = one.session()
        session.read(prompt)
        return torch.stack([session.read(tokens), session.read(prompt[:, :1])])

    found = read()
    assert calls == [False, False]
    assert torch.equal(found.nan_to_num(9), plainly(read).nan_to_num(9))
    assert found[:, ::2, 1:].isfinite().all() and found[:, 1].isnan().all()


@pytest.mark.parametrize("name", LEFT)
def test_what_no_program_knows_is_left_to_the_layers(name: str, calls: list[bool]) -> None:
    one, prompt = fresh(name, torch.float32), torch.randint(0, V, (2, 6))
    assert torch.equal(steps(one, prompt), plainly(lambda: steps(one, prompt)))
    assert calls == [False] * 10


# One at a time, of a model that is computed otherwise: the place of an option, and a value that changes something.
OPTIONS = {
    "": dict(embedding_scale=2.0, head_scale=0.5, logit_softcap=3.0, embedding_width=8),
    "stack.block": dict(order="sandwich", residual_scale=0.5, layer_scale=0.1, parallel=True, residual=False),
    "stack.block.attention": dict(softcap=3.0, qk_norm="head"),
}


@pytest.mark.parametrize(
    ("place", "option", "value"), [(place, *one) for place, group in OPTIONS.items() for one in group.items()]
)
def test_each_option_that_no_program_knows(place: str, option: str, value: object, calls: list[bool]) -> None:
    config = CONFIGS["llama"].replace(place, **{option: value})
    one = build_model(config, std=0.4).eval()
    steps(one, torch.randint(0, V, (2, 6)))
    assert calls == [False] * 5


@pytest.mark.parametrize(
    ("place", "option", "value"), [("stack.block", "order", "post"), ("", "positions", "sinusoidal")]
)
def test_norms_after_the_sum_and_computed_positions(place: str, option: str, value: str, calls: list[bool]) -> None:
    one = build_model(CONFIGS["llama"].replace(place, **{option: value}), std=0.4).eval()
    prompt = torch.randint(0, V, (3, 6))
    found = steps(one, prompt)
    assert calls == [True] * 5
    assert torch.allclose(found, plainly(lambda: steps(one, prompt)), atol=1e-4, rtol=1e-5)


def test_a_program_does_not_keep_its_model_alive() -> None:
    one = fresh("gpt2")
    steps(one, torch.randint(0, V, (1, 3)))
    gone, program = weakref.ref(one), weakref.ref(compiled_steps.program_of(one))
    del one
    gc.collect()
    assert gone() is None and program() is None


def test_tokens_and_positions_are_refused_as_by_the_layers() -> None:
    one = fresh("gpt2")
    session = one.session()
    session.read(torch.randint(0, V, (1, 3)))
    with pytest.raises(ValueError, match=f"token {V} is outside of the vocabulary"):
        session.read(torch.tensor([[V]]))
    session.read(torch.randint(0, V, (1, one.config.length - 3)))
    with pytest.raises(ValueError, match="is past the table"):
        session.read(torch.tensor([[1]]))
