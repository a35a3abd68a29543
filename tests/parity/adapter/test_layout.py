"""Adapters on disk: the names of the library peft, added by hand to transformers' own weights, and read back."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import headway
from tests.parity.adapter.models import CASES, TOLERANCE, V, logits, made
from tests.parity.compare import close

# Of one map each: the name in the file, the shapes of A and B.
NAMES = {
    "llama": {
        "base_model.model.model.layers.1.self_attn.q_proj": ((3, 22), (20, 3)),
        "base_model.model.model.layers.0.self_attn.v_proj": ((3, 22), (10, 3)),
        "base_model.model.model.layers.0.mlp.down_proj": ((3, 13), (22, 3)),
    },
    "gpt2": {
        "base_model.model.transformer.h.1.attn.c_attn": ((6, 14), (42, 6)),
        "base_model.model.transformer.h.0.attn.c_proj": ((3, 14), (14, 3)),
    },
    "t5": {
        "base_model.model.encoder.block.0.layer.0.SelfAttention.k": ((3, 14), (15, 3)),
        "base_model.model.decoder.block.0.layer.1.EncDecAttention.k": ((3, 14), (15, 3)),
        "base_model.model.decoder.block.0.layer.2.DenseReluDense.wi": ((3, 14), (11, 3)),
    },
}
MODULES = {
    "llama": ["down_proj", "q_proj", "v_proj"], "gpt2": ["attn.c_proj", "c_attn"], "t5": ["k", "wi"],
}  # fmt: skip


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    place = tmp_path_factory.mktemp("adapter")
    return request.param, place, *made(request.param, place)


def test_names_shapes_and_settings_are_those_of_peft(case) -> None:
    name, place, _, _ = case
    tensors = load_file(place / "adapter" / "adapter_model.safetensors")
    for module, (down, up) in NAMES[name].items():
        assert tensors[f"{module}.lora_A.weight"].shape == down
        assert tensors[f"{module}.lora_B.weight"].shape == up
    said = json.loads((place / "adapter" / "adapter_config.json").read_text())
    assert said["peft_type"] == "LORA" and said["target_modules"] == MODULES[name]
    assert said["task_type"] == ("SEQ_2_SEQ_LM" if name == "t5" else "CAUSAL_LM")
    assert (said["r"], said["lora_alpha"]) == (3, 5.0)
    assert said["rank_pattern"] == ({"c_attn": 6} if name == "gpt2" else {})
    assert said["alpha_pattern"] == ({"c_attn": 10.0} if name == "gpt2" else {})
    assert said["fan_in_fan_out"] == (name == "gpt2")


def test_added_by_hand_to_their_weights_it_computes_the_same(case) -> None:
    name, place, other, model = case
    tensors = load_file(place / "adapter" / "adapter_model.safetensors")
    tokens = torch.randint(0, V, (2, 7))
    before = logits(other, tokens, theirs=True)
    modules = dict(other.named_modules())
    changes = {
        key.removeprefix("base_model.model.").removesuffix(".lora_A.weight"):
        5 / 3 * tensors[key.replace("lora_A", "lora_B")] @ tensors[key]
        for key in tensors if "lora_A" in key
    }  # fmt: skip
    with torch.no_grad():
        for key, change in changes.items():
            modules[key].weight += change.t() if name == "gpt2" else change
    expected = logits(other, tokens, theirs=True)
    with torch.no_grad():
        for key, change in changes.items():
            modules[key].weight -= change.t() if name == "gpt2" else change
    assert not close(before, expected, tolerance=1e-3)
    ours = logits(model, tokens, theirs=False)
    assert close(ours, expected, tolerance=TOLERANCE[name])
    loaded = headway.load(place / "base", adapter=place / "adapter")
    assert close(logits(loaded.model, tokens, theirs=False), ours, tolerance=1e-12)
    assert "of rank 3" in str(loaded.receipt)
    named = headway.load(place / "adapter")  # it names its model
    assert torch.equal(logits(named.model, tokens, theirs=False), logits(loaded.model, tokens, theirs=False))


class TestRefusals:
    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        made("llama", tmp_path)
        return tmp_path

    @staticmethod
    def change(place: Path, **said: object) -> None:
        file = place / "adapter" / "adapter_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **said}))

    @pytest.mark.parametrize(
        ("said", "sentence"),
        [
            ({"peft_type": "IA3"}, "peft_type LORA, not IA3"),
            ({"use_dora": True}, "does not read an adapter with use_dora=True"),
            ({"modules_to_save": ["lm_head"]}, r"modules_to_save=\['lm_head'\]"),
            ({"base_model_name_or_path": None}, "names no model that the adapter is made for"),
            ({"base_model_name_or_path": "/nowhere/at/all"}, "an adapter of /nowhere/at/all, which is not here"),
            ({"lora_alpha": float("nan")}, r"adapter_config.json gives .* the alpha nan, which is no finite number"),
            ({"lora_alpha": "x"}, "the alpha 'x', which is no finite number"),
            ({"lora_alpha": None}, "the alpha None, which is no finite number"),
            ({"use_rslora": "false"}, "adapter_config.json has use_rslora='false', which is neither true nor false"),
            ({"alpha_pattern": "x"}, "adapter_config.json holds a value of the wrong kind"),
            ({"alpha_pattern": {"((a|_|q|l)+)+x": 3.0}}, "headway reads the end of a name there"),  # 2**n attempts
            ({"alpha_pattern": {"*": 3.0}}, "which is no expression"),
        ],
    )
    def test_what_is_not_computed_is_refused(self, place: Path, said: dict[str, object], sentence: str) -> None:
        self.change(place, **said)
        with pytest.raises(ValueError, match=sentence):
            headway.load(place / "adapter")

    def test_a_tensor_that_fits_nothing_is_refused(self, place: Path) -> None:
        file = place / "adapter" / "adapter_model.safetensors"
        key = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
        tensors = load_file(file)
        pair = {key.replace("q_proj.lora_A", f"z_proj.lora_{one}"): tensors[key].clone() for one in "AB"}
        for wrong, sentence in (
            (pair, "has no such map"),
            ({key.replace(".lora_A.weight", ".lora_embedding_A"): tensors[key].clone()}, "is no adapter of a linear"),
            ({key: tensors[key][:, :-1].contiguous()}, r"is of a map \(20, 21\), and the model's is \(20, 22\)"),
        ):
            save_file(tensors | wrong, file)
            with pytest.raises(ValueError, match=sentence):
                headway.load(place / "adapter")

    def test_a_scale_of_its_own_is_followed(self, place: Path) -> None:
        tokens = torch.randint(0, V, (1, 5))
        before = logits(headway.load(place / "adapter").model, tokens, theirs=False)
        self.change(place, use_rslora=True, lora_alpha=5 / 3**0.5)
        assert close(logits(headway.load(place / "adapter").model, tokens, theirs=False), before, tolerance=1e-12)
        self.change(place, alpha_pattern={"q_proj": 9.0})
        assert not close(logits(headway.load(place / "adapter").model, tokens, theirs=False), before, tolerance=1e-6)

    def test_quantised_weights_have_no_place_for_it(self, place: Path) -> None:
        model = headway.load(place / "base", adapter=place / "adapter", weights="int8").model
        headway.save(model, place / "int8")
        with pytest.raises(ValueError, match="floating-point weights, and these are int8"):
            headway.load(place / "int8", adapter=place / "adapter")
        with pytest.raises(ValueError, match=r"is no adapter: a run with lora\.rank"):
            headway.load(place / "base", adapter=place / "base")
