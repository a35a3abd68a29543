"""Classes of texts, or of pairs of texts, by a BERT."""

from typing import Any

from headway.config.train import TrainConfig
from headway.data.labelled import Labelled, hold_out, label_names, samples_of
from headway.presets.sized import sized_masked
from headway.training.objectives.classify import classify
from headway.training.tasks.common import Say, encoder_of, model_of, special_of, spooled, start_of, tokenizer_of
from headway.training.work import Place, Work


def prepare(config: TrainConfig, place: Place, say: Say) -> Work:
    config = config.model_copy(update={"data": spooled(config.data, place)})
    d = config.data
    samples, held = list(samples_of(d, d.train, paired=d.paired)), None
    label_names(sample.label for sample in samples)  # one class alone is said before anything else
    if d.validation:
        held = list(samples_of(d, d.validation, paired=d.paired))
    elif d.held:
        samples, held = hold_out(samples, d.held)
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
