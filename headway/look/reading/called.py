"""How somebody else's model is called: with the keywords that its `forward` takes, and what that says of its inputs."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from headway.config import nearest

PLACES = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx")
TARGETS = ("decoder_input_ids", "decoder_inputs_embeds", "tgt", "target", "trg")


def takes(model: nn.Module) -> frozenset[str]:
    """The names of what `forward` takes."""
    try:
        return frozenset(inspect.signature(model.forward).parameters)
    except (TypeError, ValueError):  # a compiled or scripted one
        return frozenset()


def config_of(model: nn.Module, *names: str) -> Any:
    """The first of these settings that the model's configuration has, also for generating; None: it has none."""
    holders = (getattr(model, "config", None), getattr(model, "generation_config", None))
    found = (getattr(holder, name, None) for holder in holders for name in names)
    return next((one for one in found if one is not None), None)


def check_names(model: nn.Module, inputs: Mapping[str, Any], title: str) -> None:
    """Refuse what `forward` does not name: it would not be read. A tokenizer's types are left out without a word."""
    names = takes(model)
    unknown = [name for name in inputs if name not in names and name != "token_type_ids"]
    if unknown and not names <= {"args", "kwargs"}:
        known = sorted(names - {"args", "kwargs"})
        raise ValueError(
            f"{title} takes no {unknown[0]!r}{nearest(unknown[0], known)}: name inputs= as its forward does, "
            f"such as {', '.join(_first(model))}"
        )


def _first(model: nn.Module) -> list[str]:
    return list(inspect.signature(model.forward).parameters)[:3]


def translates(model: nn.Module) -> bool:
    """Whether it reads a source and a target."""
    return {"input_ids", "decoder_input_ids"} <= takes(model)


def calling(model: nn.Module, keywords: Mapping[str, Any], title: str) -> Callable[[], Any]:
    """The call; what goes wrong inside is told in one sentence, with the length where that may be why."""
    names = takes(model)
    more = {"use_cache": False} if "use_cache" in names else {}
    given = {name: value for name, value in keywords.items() if name in names}

    def call() -> Any:
        try:
            return model(**given, **more) if given else model(*keywords.values())
        except Exception as error:
            raise ValueError(_why(model, keywords, title, error)) from error

    return call


def _why(model: nn.Module, keywords: Mapping[str, Any], title: str, error: Exception) -> str:
    longest = max((one.shape[1] for one in keywords.values() if isinstance(one, Tensor) and one.ndim == 2), default=0)
    limit = config_of(model, *PLACES)
    if isinstance(limit, int) and longest > limit:
        return f"the text has {longest:,} tokens, and {title} has positions for {limit:,}: shorten it"
    said = (str(error).strip().splitlines() or [""])[0]
    shapes = ", ".join(f"{name} {tuple(one.shape)}" for name, one in keywords.items() if isinstance(one, Tensor))
    return f"{title}, called with {shapes or 'nothing'}, failed: {type(error).__name__}: {said}"


def logits_of(model: nn.Module, call: Callable[[], Any]) -> Callable[[], Tensor] | None:
    """The logits in its output, of a model that has words to say."""
    head = getattr(model, "get_output_embeddings", None)
    if not callable(head) or not isinstance(head(), nn.Module):
        return None
    return lambda: call().logits


def vocabulary_size(model: nn.Module) -> int:
    found = config_of(model, "vocab_size")
    return found if isinstance(found, int) else 0
