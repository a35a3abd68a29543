"""Classes of images, by a ViT or a DaViT."""

from typing import Any

from headway.config.base import sides
from headway.config.kinds import read_model
from headway.config.run_files import RunFiles
from headway.config.train import TrainConfig
from headway.data.image_dataset import ImageDataset, ImageExamples, read_images
from headway.hub.load import Loaded
from headway.presets.sized import small_davit, small_vit
from headway.training.objectives import TrainingSetup, image_loss
from headway.training.tasks.common import Say, model_of, start_of


def prepare_images(config: TrainConfig, place: RunFiles, say: Say) -> TrainingSetup:
    start = start_of(config)
    train = read_images(config.data.train, cache=place.data, **_model_inputs(start))
    held = None
    if config.data.validation:
        shape = dict(_model_inputs(start), size=train.size, channels=train.channels, names=train.names)
        held = read_images(config.data.validation, cache=place.data, **shape)
    elif config.data.held:
        train, held = train.split(config.data.held)
    wanted = _config(config, train, start)
    say(f"{len(train):,} images of {len(train.names)} classes, {0 if held is None else len(held):,} held out")
    examples = ImageExamples(train, wanted.images, augment=config.data.augment)
    validation = None if held is None else ImageExamples(held, wanted.images)
    return TrainingSetup(config, model_of(config, wanted, start, say), image_loss, examples, validation)


def _model_inputs(start: Loaded | None) -> dict[str, Any]:
    """What the pictures have to be for a model that is there already."""
    if start is None:
        return {}
    c = start.model.config
    return {"size": sides(c.image), "channels": c.channels, "images": c.images}


def _config(config: TrainConfig, dataset: ImageDataset, start: Loaded | None) -> Any:
    if start is not None:
        return start.model.config.model_copy(update={"classes": len(dataset.names), "labels": dataset.names})
    if config.model.config is not None:
        return _own_config(read_model(config.model.config), dataset)
    name = config.model.architecture or "vit"
    if name not in ("vit", "davit"):
        raise ValueError(f"images are classified by vit or davit, not {name!r} (model.architecture)")
    make = small_vit if name == "vit" else small_davit
    return make(
        config.model, image=dataset.size, channels=dataset.channels, classes=len(dataset.names), labels=dataset.names,
        images=dataset.measure(),
    )  # fmt: skip


def _own_config(found: Any, dataset: ImageDataset) -> Any:
    """A configuration of one's own, for the pictures at hand."""
    if "images" not in found.tasks:
        raise ValueError(f"model.config is a {found.kind} model, which this task does not train")
    if sides(found.image) != dataset.size or found.channels != dataset.channels:
        wanted = f"{sides(found.image)} pixels in {found.channels} channels"
        raise ValueError(f"model.config is for {wanted}, and the pictures have {dataset.size} in {dataset.channels}")
    return found.replace(classes=len(dataset.names), labels=dataset.names, images=dataset.measure())
