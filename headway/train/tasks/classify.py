"""Classes of texts, or of pairs of texts, by a BERT."""

from collections.abc import Sequence
from typing import Any

from headway.config.train import TrainConfig
from headway.data.labelled import Labelled, Sample, hold_out, label_names
from headway.data.source import records
from headway.presets.sized import sized_masked
from headway.train.objectives.classify import classify
from headway.train.tasks.common import Say, encoder_of, model_of, special_of, spooled, start_of, tokenizer_of
from headway.train.work import Place, Work


def prepare(config: TrainConfig, place: Place, say: Say) -> Work:
    config = config.model_copy(update={"data": spooled(config.data, place)})
    samples, held = samples_of(config, config.data.train), None
    label_names(sample.label for sample in samples)  # one class alone is said before anything else
    if config.data.validation:
        held = samples_of(config, config.data.validation)
    elif config.data.held:
        samples, held = hold_out(samples, config.data.held)
    labels = label_names(sample.label for sample in samples)
    start = encoder_of(start_of(config))
    texts = [text for sample in samples for text in (sample.text, sample.second) if text is not None]
    tokenizer = tokenizer_of(config, place, start, lambda: texts, say)
    length = config.length if start is None else min(config.length, start.model.config.length)
    heads: dict[str, Any] = dict(classes=len(labels), labels=labels, special=special_of(tokenizer))
    if start is None:
        wanted = sized_masked(config.model, vocabulary=tokenizer.size, length=length, **heads)
    else:
        wanted = start.model.config.model_copy(
            update={**heads, "pooler": True, "words": False, "adjacent": False, "inverted": False, "inference": 0}
        )
    options: dict[str, Any] = dict(length=length, labels=labels, cut=config.data.cut)
    train = Labelled(samples, tokenizer, **options)
    validation = None if held is None else Labelled(held, tokenizer, **options)
    say(f"{len(train):,} texts of {len(labels)} classes, {0 if held is None else len(held):,} held out")
    return Work(config, model_of(config, wanted, start, say), classify, train, validation, tokenizer)


def samples_of(config: TrainConfig, places: Sequence[str]) -> list[Sample]:
    """The labelled texts of the places."""
    d = config.data
    texts = {"text": d.first, "second": d.second} if d.paired else {"text": d.text}
    found = records(places, columns={**texts, "label": d.label}, format=d.format)
    return [Sample(one.where, one.fields["text"], one.fields["label"], one.fields.get("second")) for one in found]
