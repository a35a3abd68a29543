"""Words by layer: the last depth is the model's own answer, the others are its own norm and head on earlier vectors."""

from collections.abc import Callable

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from headway.look.logit_lens import blocks, logit_lens
from headway.look.record import Lens
from headway.models.encoder import Masked
from headway.models.language import Language
from headway.models.seq2seq import Seq2Seq
from headway.observe.attention import captured
from headway.presets.bert import bert
from headway.presets.gpt2 import gpt2
from headway.presets.seq2seq import t5

V, L, M = 37, 11, 7
TOKENS, SOURCE = torch.arange(L)[None] * 5 % V, torch.arange(M)[None] * 3 % V
SIZES = dict(vocab_size=V, hidden_size=12, num_hidden_layers=3, num_attention_heads=3, intermediate_size=20)
BERT = transformers.BertConfig(**SIZES)


def language() -> nn.Module:
    return Language(gpt2(width=12, heads=3, layers=3, vocabulary=V, length=19))


def masked(**heads: int | bool) -> nn.Module:
    return Masked(bert(width=12, heads=3, layers=3, hidden=20, vocabulary=V, length=19, **heads))


def own_t5() -> nn.Module:
    return Seq2Seq(t5(width=12, hidden=20, layers=3, heads=3, head_width=5).model_copy(update={"vocabulary": V}))


def their_t5() -> nn.Module:
    sizes = dict(d_model=12, d_kv=5, num_layers=2, num_decoder_layers=3, num_heads=3, d_ff=20)
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(**sizes, vocab_size=V, decoder_start_token_id=0)
    )


def their_bart() -> nn.Module:
    heads = dict(encoder_attention_heads=3, decoder_attention_heads=3, encoder_ffn_dim=20, decoder_ffn_dim=20)
    return transformers.BartForConditionalGeneration(
        transformers.BartConfig(vocab_size=V, d_model=12, encoder_layers=2, decoder_layers=3, **heads)
    )


def shared() -> nn.Module:
    return Language(gpt2(width=12, heads=3, layers=3, vocabulary=V, length=19).replace("stack", shared=True))


def their_gpt2() -> nn.Module:
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=V, n_embd=12, n_layer=3, n_head=3, n_positions=19)
    )


MODELS: dict[str, Callable[[], nn.Module]] = {
    "language": language,
    "masked": lambda: masked(words=True),
    "shared": shared,
    "seq2seq": own_t5,
    "GPT-2": their_gpt2,
    "Llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)),
    "BERT": lambda: transformers.BertForMaskedLM(BERT),
    "T5": their_t5,
    "BART": their_bart,
}


def run(model: nn.Module) -> Tensor:
    two = isinstance(
        model, Seq2Seq | transformers.T5ForConditionalGeneration | transformers.BartForConditionalGeneration
    )
    if isinstance(model, Language | Masked | Seq2Seq):
        return model(SOURCE, TOKENS) if two else model(TOKENS)
    out = model(input_ids=SOURCE, decoder_input_ids=TOKENS) if two else model(input_ids=TOKENS)
    return out.logits if "logits" in out else out[0]


def stirred(model: nn.Module) -> nn.Module:
    """Far from the start: norms and biases are no identities, and no two layers say the same."""
    with torch.no_grad():
        for one in model.parameters():
            one.add_(torch.randn_like(one) * 0.3)
        for name, one in model.named_buffers():
            if "bias" in name and one.is_floating_point():
                one.normal_()
    return model.eval()


def look(model: nn.Module, **more: object) -> Lens | str:
    return logit_lens(model, lambda: run(model), side=0, word=lambda n: f"w{n}", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", MODELS)
def test_words_by_layer(name: str) -> None:
    model = stirred(MODELS[name]())
    kept: list[Tensor] = []
    with torch.no_grad():
        before = run(model)
        lens = logit_lens(model, lambda: kept.append(run(model)) or kept[0], side=1, word=str, places=(2, 9, 5), top=3)
    assert torch.equal(kept[0], before)
    assert isinstance(lens, Lens) and lens.side == 1 and lens.places == (2, 9, 5) and lens.note == "3 of 11 places."
    assert lens.depths == ("embedding", "1", "2", "3")
    own = before[0, [2, 9, 5]].softmax(-1).topk(3)
    torch.testing.assert_close(torch.tensor(lens.probabilities[-1]), own.values, rtol=0, atol=0)
    assert lens.tokens[-1] == tuple(tuple(map(str, row)) for row in own.indices.tolist())
    assert len(set(lens.probabilities)) == 4


@pytest.mark.parametrize("name", ["language", "masked", "seq2seq", "GPT-2", "Llama", "BERT", "T5", "BART"])
def test_an_inner_depth_is_what_the_model_says_without_the_later_blocks(name: str) -> None:
    """The blocks after it are taken out: norm, factor and head are then the model's own, not ours."""
    model = stirred(MODELS[name]())
    found = look(model)
    assert isinstance(found, Lens)
    del model.get_submodule(list(blocks(model).values())[-1])[2:]  # type: ignore[union-attr]
    with torch.no_grad():
        own = run(model)[0].softmax(-1).topk(5)
    torch.testing.assert_close(torch.tensor(found.probabilities[2]), own.values, rtol=0, atol=1e-5)


def test_of_a_long_text_the_last_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.look.logit_lens.PLACES", 5)
    monkeypatch.setattr("headway.look.logit_lens.NUMBERS", 2 * V)  # in several chunks too
    model = stirred(language())
    found, whole = look(model), look(model, places=range(L))
    assert isinstance(found, Lens) and isinstance(whole, Lens)
    assert found.places == (6, 7, 8, 9, 10) and whole.note == ""
    assert found.tokens == tuple(depth[6:] for depth in whole.tokens)


def test_who_does_not_speak_has_no_lens() -> None:
    theirs = [transformers.BertModel(BERT), transformers.BertForTokenClassification(BERT)]
    for model in (masked(classes=2), masked(), *theirs):
        found = look(model.eval())
        assert isinstance(found, str) and "does not answer with words" in found


def test_who_has_no_blocks_has_no_lens() -> None:
    model = nn.Sequential(nn.Embedding(V, 5), nn.Linear(5, V))
    found = logit_lens(model, lambda: model(TOKENS), side=0, word=str)
    assert isinstance(found, str) and "no row of blocks" in found


class Bent(nn.Module):
    """A language model of two layers; what follows its head is no module."""

    def __init__(self, bend: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.tokens, self.head, self.bend = nn.Embedding(V, 12), nn.Linear(12, V), bend
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(12, 3, 20, batch_first=True) for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.bend(self.head(x))


def test_what_cannot_be_followed_is_said() -> None:
    ways = {"found": lambda x: x * 3, "no way was found": torch.tanh, "own answer": lambda x: turned(x)}
    for told, bend in ways.items():
        model = Bent(bend).eval()
        with torch.no_grad():
            before, kept = model(TOKENS), list[Tensor]()
        found = logit_lens(model, lambda m=model, kept=kept: kept.append(m(TOKENS)) or kept[0], side=0, word=str)
        assert torch.equal(kept[0], before)
        assert isinstance(found, Lens) if told == "found" else told in str(found)


def turned(x: Tensor) -> Tensor:
    """In another order but for the last place, which is all that was compared on the way."""
    return torch.cat([x[:, :-1].flip(1), x[:, -1:]], 1)


def test_a_layer_of_torch_stays_on_its_fast_way() -> None:
    """It leaves it where it finds a hook on any of its modules."""
    model = Bent(lambda x: x).eval()

    def run() -> Tensor:
        assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
        return model(TOKENS)

    assert isinstance(logit_lens(model, run, side=0, word=str), Lens)


def test_a_place_that_the_text_does_not_have() -> None:
    with pytest.raises(ValueError, match="tokens 0 to 10, and not all of those asked for"):
        look(language(), places=(3, 11))


def test_nothing_stays_behind() -> None:
    """A pass after it keeps nothing, and what fails leaves no hook."""
    model, before = stirred(language()), len(_global_forward_hooks) + len(_global_forward_pre_hooks)
    look(model)
    with pytest.raises(RuntimeError, match="no answer"):
        logit_lens(model, failing, side=0, word=str)
    assert len(_global_forward_hooks) + len(_global_forward_pre_hooks) == before


def failing() -> Tensor:
    raise RuntimeError("no answer")


def test_one_pass_serves_the_weights_too() -> None:
    """And the lens's own softmax over words is no attention."""
    model = stirred(their_gpt2())
    with captured(model) as found:
        lens = look(model)
    assert isinstance(lens, Lens) and [one.shape for one in found] == [(1, 3, L, L)] * 3


class Turning(nn.Module):
    """One block, three times over; before that, it reads something else."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(V, 12), nn.Linear(12, V)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(12, 3, 20, batch_first=True)])

    def forward(self, tokens: Tensor) -> Tensor:
        self.layers[0](self.tokens(tokens.flip(1)))
        x = self.tokens(tokens)
        for _ in range(3):
            x = self.layers[0](x)
        return self.head(x)


def test_a_block_that_reads_what_it_gave_is_a_further_depth() -> None:
    model = Turning().eval()
    found = logit_lens(model, lambda: model(TOKENS), side=0, word=str)
    assert isinstance(found, Lens) and found.depths == ("embedding", "1", "2", "3")
    own = model.head(model.tokens(TOKENS))[0].softmax(-1).amax(-1).tolist()
    assert [place[0] for place in found.probabilities[0]] == pytest.approx(own, abs=1e-6)
