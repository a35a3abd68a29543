"""Runs of which a part is frozen: what is kept, and the same weights whether or not the run was stopped."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from headway.config.run_files import RunFiles
from headway.config.train import LoraConfig
from headway.models.lora import add_lora, trainable
from headway.training.distributed import World
from headway.training.freeze import freeze, frozen_hash
from headway.training.loop import TrainingLoop
from tests.training.small import config, run, work


def frozen(kind: str, *, moved: bool = False):
    model = work(config()).model
    if moved:
        with torch.no_grad():
            model.stack.blocks[0].attention.out.weight.add_(1)
    if kind == "lora":
        add_lora(model, LoraConfig(rank=2, dropout=0.2), seed=7)
    else:
        freeze(model, ("embeddings", "layers:0"))
    return model


@pytest.mark.parametrize("kind", ["lora", "layers"])
def test_resumed_bit_for_bit_and_frozen_parts_are_not_kept(tmp_path: Path, kind: str) -> None:
    settings = config()
    before = {name: one.clone() for name, one in frozen(kind).named_parameters()}
    whole = run(tmp_path / "whole", settings, model=frozen(kind))
    run(tmp_path / "cut", settings, until=7, model=frozen(kind))
    resumed = run(tmp_path / "cut", settings, resume=True, model=frozen(kind))
    ours, theirs = (one.trainer.learner.model.state_dict() for one in (whole, resumed))
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())
    learnt = {name for name, one in whole.trainer.learner.model.named_parameters() if one.requires_grad}
    assert learnt == {name for name, one in before.items() if not torch.equal(ours[name], one)}
    kept = load_file(next((tmp_path / "whole/checkpoints").glob("step-00000011/*.safetensors")))
    sizes = {name.split("/")[1] for name in kept} - {"updates"}
    assert sum(one.numel() for name, one in kept.items() if name.startswith("model/")) == trainable(frozen(kind))
    assert not [name for name in sizes if "tokens" in name or ("blocks.0" in name and ".adapters." not in name)]


def test_frozen_weights_that_have_changed_are_told(tmp_path: Path) -> None:
    settings, model = config(), frozen("lora")
    run(tmp_path, settings, until=4, model=model, identity=frozen_hash(model))
    other = frozen("lora", moved=True)
    found = work(settings, model=other, identity=frozen_hash(other))
    loop = TrainingLoop(found, RunFiles(tmp_path), World(), resume=True)
    assert "not the run that was saved: its data, tokenizer or frozen weights have changed since" in loop.notes


def test_a_model_that_is_frozen_as_a_whole_is_refused() -> None:
    model = work(config()).model
    freeze(model, ("embeddings", "layers:0-1"))
    assert trainable(model) == 24  # the last norm
    model.requires_grad_(False)
    with pytest.raises(ValueError, match="nothing to train"):
        TrainingLoop(work(config(), model=model), RunFiles(Path("nowhere")), World())
