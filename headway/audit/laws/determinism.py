"""The same reading gives the same result: twice, after another text, in training with one seed, and in training
without dropout as in use."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headway.adapt.inputs import fit_length, no_labels
from headway.adapt.model import AdaptedModel
from headway.audit.laws.variants import (
    combine,
    rounding,
    seeded,
    variant_context,
    with_context_manager,
)
from headway.audit.report import NOT_APPLICABLE, Finding
from headway.audit.search.case import Case
from headway.audit.search.compare import Comparison
from headway.audit.search.find import Compare, search
from headway.audit.search.localise import first_wrong, layers
from headway.audit.search.noise import Noise
from headway.audit.search.search_context import SearchContext, TrialRng
from headway.nn.modes import modes_kept

LOOKS = 6
STATISTICS = "{} takes the statistics of the batch in training: train and eval then differ by more than dropout"


def determinism(context: SearchContext) -> Finding:
    """Four questions, the first that is answered with no ends it."""
    try:
        return combine(_asked(context), "determinism")
    except ValueError as error:
        return Finding("determinism", NOT_APPLICABLE, why=str(error))


def _asked(context: SearchContext) -> Iterator[Finding]:
    """In the model's own numbers: two equal runs are equal to the bit, but for a machine that adds in any order."""
    trials, epsilon = max(1, context.effort.trials // 8), torch.finfo(torch.float32).eps
    coarse = torch.finfo(context.original.dtype).eps > epsilon  # a difference could pass for rounding
    model = context.subject if coarse else context.original
    exact = Noise(epsilon, epsilon, 0.0, epsilon)
    for compare in (twice, in_between):
        yield _searched(variant_context(context, model.copy(share_weights=True), exact), compare, trials)
    trained = in_training(model.copy(share_weights=True), context, silent=False)
    yield _searched(variant_context(context, trained, exact), seeded_twice, trials)
    quiet = model.copy(share_weights=True)
    remove_dropout(quiet.module)
    trained, compare = in_training(quiet, context, silent=True), trained_and_used(in_use(quiet, context))
    yield _finding_of(
        _searched(variant_context(context, trained, rounding(context, model.dtype)), compare, trials), context
    )


def _searched(context: SearchContext, compare: Compare, trials: int) -> Finding:
    """What comes and goes by chance may have gone when its module is looked for: then look again, at a longer text."""
    found = search(context, "determinism", draw, compare, trials=trials)
    if not found.broken or found.module:
        return found
    length = fit_length(context.subject.adapter, context.effort.longest)
    limit, deviation = found.tolerance or 0.0, found.deviation or 0.0
    for seed in range(LOOKS):
        comparison = compare(context, Case(seed, length, 2, source=length))
        rows = [] if comparison is None else layers(context.subject, comparison, limit, deviation)
        if module := first_wrong(rows, limit, deviation):
            return replace(found, module=module, layers=rows)
    return found


def draw(context: SearchContext, rng: TrialRng) -> Case:
    length = rng.length(context.subject.adapter, least=2, most=context.effort.longest)
    return Case(rng.randrange(1 << 30), length, rng.randint(1, 2), source=length + 2)


def twice(context: SearchContext, case: Case) -> Comparison:
    text = case.reading(context.subject.adapter)
    return Comparison((text,), (text,), "the same text, read twice, has two results", gradients=False)


def in_between(context: SearchContext, case: Case) -> Comparison:
    """Another text, and a longer one, is read before the second time."""
    text = case.reading(context.subject.adapter)
    longer = fit_length(context.subject.adapter, 2 * case.length + 3)
    other = replace(case, seed=case.seed + 1, length=longer, source=longer + 1).reading(context.subject.adapter)
    other = replace(other, labels=no_labels(*other.labels.shape))
    return Comparison((text,), (other, text), "a result changes once another text was read", gradients=False)


def seeded_twice(context: SearchContext, case: Case) -> Comparison:
    text = case.reading(context.subject.adapter)
    sentence = "in training, the same text and the same seed have two results"
    return Comparison((text,), (text,), sentence, gradients=False)


def trained_and_used(used: AdaptedModel) -> Compare:
    """Training comes first: what it learns in passing (a running mean) then serves both."""

    def compare(context: SearchContext, case: Case) -> Comparison:
        text = case.reading(context.subject.adapter)
        sentence = "without dropout, results in training differ from those in use"
        return Comparison((text,), (text,), sentence, other=used, gradients=False)

    return compare


def in_training(subject: AdaptedModel, context: SearchContext, *, silent: bool) -> AdaptedModel:
    """The model in training; every call begins with the same seed and the same buffers."""
    kept = {name: one.clone() for name, one in subject.module.named_buffers()}

    @contextmanager
    def around(module: nn.Module) -> Iterator[None]:
        _put_back(module, kept)
        with seeded(context.seed), modes_kept(module), NoDropout() if silent else nullcontext():
            module.train()
            yield

    return with_context_manager(subject, around, context.subject)


def in_use(subject: AdaptedModel, context: SearchContext) -> AdaptedModel:
    """The model in eval, where functions drop nothing either."""

    return with_context_manager(subject, lambda module: NoDropout(), context.subject)


def _put_back(module: nn.Module, kept: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, one in module.named_buffers():
            if name in kept and one.shape == kept[name].shape:
                one.copy_(kept[name])


def _finding_of(found: Finding, context: SearchContext) -> Finding:
    """Batch statistics break it by design, which is said."""
    named = dict(context.subject.module.named_modules()).get(found.module)
    kind = type(named).__name__
    if not found.broken or named is None or ("BatchNorm" not in kind and not _recorded(named)):
        return found
    why = STATISTICS.format(found.module or "the model")
    return replace(found, why=why, details=[{"module": found.module, "kind": kind, "cause": "batch statistics"}])


def _recorded(module: nn.Module) -> bool:
    return any("running" in name for name, _ in module.named_buffers(recurse=False))


# Each hands on its first argument where nothing is dropped.
DROPOUTS = frozenset({
    F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout, torch.dropout,
    torch.dropout_, torch.alpha_dropout, torch.alpha_dropout_, torch.feature_dropout, torch.feature_dropout_,
    torch.feature_alpha_dropout, torch.feature_alpha_dropout_,
})  # fmt: skip


class NoDropout(TorchFunctionMode):
    """While it is on, no function of torch drops anything: a share that is written into the code is dropout too."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in DROPOUTS:
            return args[0] if args else kwargs["input"]
        if func is F.scaled_dot_product_attention:
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            kwargs = {name: 0.0 if name == "dropout_p" else one for name, one in kwargs.items()}
        return func(*args, **kwargs)


def remove_dropout(module: nn.Module) -> None:
    """Set every share that is dropped to 0: `p` of a module named after dropping, and numbers called drop-something."""
    for one in module.modules():
        dropping = "drop" in type(one).__name__.lower()
        for name, value in list(vars(one).items()):
            named = "drop" in name.lower() or (dropping and name == "p")
            if named and isinstance(value, float) and 0.0 < value <= 1.0:
                setattr(one, name, 0.0)
