"""The command line: one thin file per verb, imported only when that verb is called.

A verb is a function of its own name in `headway/cli/<verb>.py` and one line in VERBS. Its docstring is its `--help`,
with a paragraph "For example:" (a section called "Examples:" is dropped by the docstring parser). Results go to stdout,
everything else to stderr; a whole number that it returns is the exit code.
"""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway import __version__

if TYPE_CHECKING:
    from cyclopts import App

# What `headway --help` says of each verb; `headway <verb> --help` shows the verb's own docstring.
VERBS = {
    "train": "From data to a model that works: train, stop, resume.",
    "plan": "Which model for this data, time and memory, and the command that trains it.",
    "eval": "Measure a model on data: loss, accuracy, F1, BLEU and chrF.",
    "runs": "List runs, compare them, draw their curves.",
    "mechanisms": "One table over all attention mechanisms: difference from the reference, price, time.",
    "bench": "Time headway beside its peers, in one run.",
    "cost": "The price of a model before it runs: FLOPs, memory, depth, time.",
    "audit": "The laws, checked on anybody's model: causal, padding, cache and more.",
    "look": "What attends to what: heads, tokens, patches, in a page, a picture or here.",
    "info": "A model as a tree: shapes, parameters, memory.",
    "convert": "Read a model and write it again, in another dtype.",
    "classify": "Classes of lines of text, or of pictures.",
    "embed": "One vector for each line of text.",
    "generate": "Text from a model on disk: continue a prompt, or answer a source.",
    "translate": "Lines of text into other lines, by a model that reads a source.",
}

HELP = """The Transformer on PyTorch: every attention mechanism behind one interface.

For example:

    headway train FILE           a model of one's own
    headway plan TASK DATA       which size, batch and steps, and what they cost
    headway eval DIR DATA        how good a model is
    headway runs                 all runs, and their curves
    headway mechanisms           all mechanisms on one input
    headway bench attention      attention beside its peers
    headway cost gpt2            what a model costs, before it runs
    headway audit runs/first     which laws a model keeps, with counter-examples
    headway look DIR "a text"    what attends to what
    headway info gpt2            a model as a tree
    headway convert DIR NEW      a model in another dtype
    headway classify DIR FILE    classes of lines of text, or of pictures
    headway embed DIR FILE       one vector for each line of text
    headway generate DIR         text that goes on from a prompt
    headway translate DIR FILE   lines in, lines out, by T5, BART or Marian
    headway bench --help         what a command can do
"""

EPILOGUE = (
    "Results go to stdout, the rest to stderr. Exit codes: 0 done, 1 an error in headway (of audit: a "
    "law is broken), 2 a mistake in the command. "
    "NO_COLOR=1 turns colours off; HEADWAY_TRACEBACK=1 shows where a mistake was found."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    if tokens[:1] == ["train"] and {"--help", "-h", "--help-all"} & set(tokens):
        return _train_help(tokens)
    from headway.cli.errors import run  # it imports cyclopts, which takes a while
    from headway.config.size_limits import lift_limits

    words = tokens[: tokens.index("--")] if "--" in tokens else tokens
    with lift_limits("--force" in words):
        return run(build(tokens), tokens, VERBS)


def _train_help(tokens: Sequence[str]) -> int:
    from headway.cli.train_help import help_text

    text = help_text(every="--help-all" in tokens)
    try:
        return _show(text)
    except (OSError, AttributeError):  # nobody reads, or there is no stdout: said as everywhere, which takes cyclopts
        from headway.cli.errors import report_errors

        return report_errors(lambda: _show(text), VERBS)


def _show(text: str) -> int:
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0


def build(tokens: Sequence[str]) -> "App":
    """The application that reads these tokens; no verb is imported yet."""
    from cyclopts import App

    app = App(
        name="headway",
        version=f"headway {__version__}",
        help=HELP,
        help_format="plaintext",
        help_epilogue=EPILOGUE,
        version_flags=["--version"],
        print_error=False,
        exit_on_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_int_as_exit_code_else_zero",
    )
    for verb, summary in VERBS.items():
        # A summary would replace the docstring in the help of the verb itself.
        app.command(f"headway.cli.{verb}:{verb}", name=verb, help=None if verb in tokens[:1] else summary)
    return app
