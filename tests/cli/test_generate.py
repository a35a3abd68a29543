"""`headway generate`: text from a directory, as it comes, with one receipt and one sentence for each mistake."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, pre_tokenizers, trainers

import headway
from headway.cli import main
from headway.cli.generate import in_turn
from headway.config import Special
from headway.data.tokenizer import Tokenizer
from headway.decoding import Request, TokenEvent, beam, generate
from headway.presets.bert import bert
from tests.decoding.tiny import CONFIGS
from tests.fresh import fresh

ROOT = Path(__file__).parent.parent.parent


def tokenizer() -> Tokenizer:
    engine = Engine(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    engine.train_from_iterator(["the cat"], trainers.BpeTrainer(vocab_size=263, initial_alphabet=alphabet))
    return Tokenizer(engine)


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A language model, an encoder-decoder, and a model without a tokenizer."""
    words, found = tokenizer(), {}
    for name, start in (("llama", None), ("bart", 3)):
        special = Special(end=(97,), start=start)
        config = CONFIGS[name].model_copy(update={"vocabulary": words.size, "special": special, "length": 31})
        found[name] = tmp_path_factory.mktemp(name)
        headway.save(fresh(config, seed=1, std=0.3), found[name], tokenizer=words)
    # One token of the prompts alone is broken: the head is another table.
    torn = fresh(CONFIGS["llama"].model_copy(update={"vocabulary": words.size, "length": 31, "tied": False}), seed=1)
    with torch.no_grad():
        torn.tokens.weight[words.encode("b")[0]] = float("nan")
    found["broken"] = tmp_path_factory.mktemp("broken")
    headway.save(torn, found["broken"], tokenizer=words)
    found["masked"] = tmp_path_factory.mktemp("masked")
    headway.save(fresh(bert(width=14, layers=1, heads=2, vocabulary=words.size)), found["masked"], tokenizer=words)
    found["mute"] = tmp_path_factory.mktemp("mute")
    headway.save(fresh(CONFIGS["gpt2"]), found["mute"])
    return found


def right(directory: Path, *prompts: str, **options: object) -> list[str]:
    """The library's own answer."""
    model, words, _ = headway.load(directory)
    return [one.text for one in generate(model, [Request(prompt=p, **options) for p in prompts], tokenizer=words)]


def test_text_goes_to_stdout_and_the_receipt_to_stderr(
    directories: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    call = [
        "generate",
        str(directories["llama"]),
        "--prompt",
        "the cat",
        "--max-new-tokens",
        "12",
        "--temperature",
        "1.5",
    ]
    assert main([*call, "--seed", "5"]) == 0
    shown = capsys.readouterr()
    [text] = right(directories["llama"], "the cat", max_new_tokens=12, temperature=1.5, seed=5)
    assert len(text) > 3
    assert shown.out == text + "\n"
    receipt, told = shown.err.splitlines()
    assert "parameters in float32" in receipt and "0 missing" in receipt
    assert told.startswith("prompt 1: 12 tokens, ended by max_new_tokens")


def test_several_prompts_are_one_batch_in_their_order(
    directories: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = ["the cat", "-5 degrees", "x"]
    call = [word for prompt in prompts for word in ("--prompt", prompt)]
    options = ["--max-new-tokens", "7", "--temperature", "1", "--top-k", "50", "--top-p", "0.9", "--min-p", "0.01"]
    assert main(["generate", str(directories["llama"]), *call, *options, "--repetition-penalty", "1.2"]) == 0
    chosen = dict(max_new_tokens=7, temperature=1.0, top_k=50, top_p=0.9, min_p=0.01, repetition_penalty=1.2)
    alone = [right(directories["llama"], prompt, **chosen)[0] for prompt in prompts]
    assert capsys.readouterr().out == "".join(text + "\n" for text in alone)


@pytest.mark.parametrize("arguments", [[], ["--prompt", "-"]])
def test_the_prompt_may_come_from_stdin(
    directories: dict[str, Path],
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the cat\r\nsat\n")))
    assert main(["generate", str(directories["llama"]), *arguments, "--max-new-tokens", "5"]) == 0
    assert capsys.readouterr().out == right(directories["llama"], "the cat\nsat", max_new_tokens=5)[0] + "\n"


def test_json_has_tokens_reasons_and_log_probabilities(
    directories: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    call = [
        "generate",
        str(directories["llama"]),
        "--prompt",
        "the",
        "--prompt",
        "cat",
        "--max-new-tokens",
        "3",
        "--json",
    ]
    assert main([*call, "--logprobs", "2"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["prompt"] for row in rows] == ["the", "cat"]
    assert [row["text"] for row in rows] == right(directories["llama"], "the", "cat", max_new_tokens=3)
    for row in rows:
        assert len(row["tokens"]) == len(row["logprobs"]) == len(row["likeliest"])
        assert all(one == most[0][1] for one, most in zip(row["logprobs"], row["likeliest"], strict=True))
        assert row["finish"] in ("max_new_tokens", "end")
    assert main(call) == 0
    assert set(json.loads(capsys.readouterr().out)[0]) == {"prompt", "text", "tokens", "finish", "ties"}


def test_a_stop_string_ends_the_text(directories: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    [text] = right(directories["llama"], "the cat", max_new_tokens=12, temperature=1.5, seed=5)
    stop = text[4:6]
    call = [
        "generate",
        str(directories["llama"]),
        "--prompt",
        "the cat",
        "--max-new-tokens",
        "12",
        "--temperature",
        "1.5",
    ]
    assert main([*call, "--seed", "5", "--stop", stop, "--stop", "@@@@"]) == 0
    shown = capsys.readouterr()
    assert shown.out == text[: text.index(stop)] + "\n"
    assert "ended by stop" in shown.err


def test_beams_answer_a_source(directories: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    call = ["generate", str(directories["bart"]), "--prompt", "the cat", "--max-new-tokens", "6", "--beam", "3"]
    assert main([*call, "--length-penalty", "0.5", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    model, words, _ = headway.load(directories["bart"])
    [[best, *_]] = beam(model, [Request(prompt="the cat", max_new_tokens=6)], beams=3, alpha=0.5, tokenizer=words)
    assert (row["text"], row["tokens"], row["score"]) == (best.text, list(best.tokens), pytest.approx(best.score))
    assert main(call) == 0
    assert capsys.readouterr().out == beam(
        model, [Request(prompt="the cat", max_new_tokens=6)], beams=3, tokenizer=words
    )[0][0].text + "\n"  # fmt: skip


MISTAKES = {
    "1 token and --max-new-tokens 80 more do not fit into the model's 31 positions": (
        "llama",
        ["--prompt", "x", "--max-new-tokens", "80"],
    ),
    "cannot slide past its length": ("llama", ["--prompt", "x", "--past-length", "slide"]),
    "--top-p cannot be 2.0: input should be less than or equal to 1": ("llama", ["--prompt", "x", "--top-p", "2"]),
    "the prompt is empty": ("llama", ["--prompt", "", "--max-new-tokens", "3"]),
    "has no tokenizer": ("mute", ["--prompt", "x"]),
    "--beam chooses by score alone: leave out --temperature": (
        "bart",
        ["--prompt", "x", "--beam", "2", "--temperature", "1"],
    ),
    "did you mean --temperature?": ("llama", ["--prompt", "x", "--temprature", "1"]),
}


# What needs no weights to be known is said before they are read.
EARLY = {
    "prompt 2 is not UTF-8 text": ("llama", ["--prompt", "x", "--prompt", "a\udcffb"]),
    "the prompt is not UTF-8 text": ("llama", ["--prompt", "a\udcffb"]),
    "--stop is not UTF-8 text": ("llama", ["--prompt", "x", "--stop", "\udcff"]),
    "--prompt - is given 2 times, and stdin can be read once": ("llama", ["--prompt", "-", "--prompt", "-"]),
    "--logprobs are written with --json alone: add --json": ("llama", ["--prompt", "x", "--logprobs", "2"]),
    "--logprobs cannot be -2: input": ("llama", ["--prompt", "x", "--logprobs", "-2", "--json"]),
    "--max-new-tokens cannot be 0: input": ("llama", ["--prompt", "x", "--max-new-tokens", "0"]),
    "--seed cannot be -1: input": ("llama", ["--prompt", "x", "--seed", "-1"]),
    "--temperature cannot be nan: input": ("llama", ["--prompt", "x", "--temperature", "nan"]),
    "--stop cannot be '': string": ("llama", ["--prompt", "x", "--stop", ""]),
    "--beam is at least 1, not 0": ("bart", ["--prompt", "x", "--beam", "0"]),
    "--beam chooses by score alone: leave out --top-k": ("bart", ["--prompt", "x", "--beam", "2", "--top-k", "3"]),
    "is more than the 261 tokens that the model can choose from": ("bart", ["--prompt", "x", "--beam", "262"]),
    "has no tokenizer: add tokenizer.json": ("mute", ["--prompt", "x"]),
    "holds a masked model, which does not generate text": ("masked", ["--prompt", "x"]),
}


@pytest.mark.parametrize("sentence", EARLY)
def test_what_needs_no_weights_is_said_before_they_are_read(
    directories: dict[str, Path], sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("headway.hub.load", unread)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x")))
    name, arguments = EARLY[sentence]
    assert main(["generate", str(directories[name]), *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and len(shown.err.splitlines()) == 1 and sentence in shown.err


def unread(*_: object, **__: object) -> None:
    raise AssertionError("the weights were read")


@pytest.mark.parametrize(
    ("stdin", "sentence"),
    [
        (None, "standard input is closed: give a --prompt, or something to read"),
        (b"a\xffb", "the prompt on standard input is not UTF-8 text"),
    ],
)
def test_stdin_that_is_no_text(
    directories: dict[str, Path],
    stdin: bytes | None,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("headway.hub.load", unread)
    # As where the locale is C: what is no text gets through, and is found much later.
    file = None if stdin is None else io.TextIOWrapper(io.BytesIO(stdin), "utf-8", errors="surrogateescape")
    monkeypatch.setattr(sys, "stdin", file)
    assert main(["generate", str(directories["llama"])]) == 2
    assert capsys.readouterr().err == f"headway: {sentence}\n"


def test_one_token_is_singular_and_options_are_those_of_the_command_line(
    directories: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["generate", str(directories["llama"]), "--prompt", "x", "--max-new-tokens"]
    assert main([*call, "80"]) == 2
    assert "ask for at most 30, or choose --past-length stop\n" in capsys.readouterr().err
    assert main([*call, "1"]) == 0
    assert "prompt 1: 1 token, ended by" in capsys.readouterr().err


def test_broken_weights_name_the_prompt(directories: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    call = ["generate", str(directories["broken"]), "--prompt", "a", "--prompt", "b", "--max-new-tokens", "2"]
    for more in ([], ["--beam", "2"]):
        assert main([*call, *more]) == 2
        assert "the model's largest logit for prompt 2 is nan" in capsys.readouterr().err


@pytest.mark.parametrize("sentence", MISTAKES)
def test_a_mistake_is_one_sentence(
    directories: dict[str, Path], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, arguments = MISTAKES[sentence]
    assert main(["generate", str(directories[name]), *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and sentence in shown.err.splitlines()[-1]


def test_past_the_length_it_can_stop(directories: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    call = ["generate", str(directories["llama"]), "--prompt", "x", "--max-new-tokens", "80", "--past-length", "stop"]
    assert main(call) == 0
    assert "30 tokens, ended by length" in capsys.readouterr().err


def test_pieces_come_in_turn() -> None:
    """The first request as it comes, the others when it is their turn, each with a line break after it."""
    said = [(1, "a", None), (0, "x", None), (2, "p", "end"), (1, "b", "end"), (0, "y", None), (0, "z", "end")]
    events = iter([TokenEvent(request, 7, text, 1.0, finish=finish) for request, text, finish in said])
    assert list(in_turn(events)) == ["x", "y", "z", "\n", "ab", "\n", "p", "\n"]


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; from headway.cli import main; main(['generate', '--help']); print('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


TEMPLATE = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = tokenizer()
    words.chat_template = TEMPLATE
    place = tmp_path_factory.mktemp("chatty")
    config = CONFIGS["llama"].model_copy(
        update={"vocabulary": words.size, "special": Special(end=(97,)), "length": 256}
    )
    headway.save(fresh(config, seed=3, std=0.3), place, tokenizer=words)
    return place


def said(place: Path, *messages: tuple[str, str], **options: object) -> str:
    found = headway.load(place).model
    return headway.generate(found, [{"role": role, "content": text} for role, text in messages], **options).text


def test_chat_answers_messages_and_all_of_stdin_is_one(
    chatty: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    call = ["generate", str(chatty), "--max-new-tokens", "9"]
    assert main([*call, "--chat", "--prompt", "the", "--prompt", "cat", "--system", "be brief"]) == 0
    right = [said(chatty, ("system", "be brief"), ("user", text), max_new_tokens=9) for text in ("the", "cat")]
    assert capsys.readouterr().out == "".join(f"{text}\n" for text in right)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the cat\nsat\n")))
    assert main([*call, "--chat"]) == 0
    assert capsys.readouterr().out == said(chatty, ("user", "the cat\nsat"), max_new_tokens=9) + "\n"
    talk = [
        {"role": "user", "content": "the"},
        {"role": "assistant", "content": "cat"},
        {"role": "user", "content": "x"},
    ]
    for content in (talk, [talk], {"messages": talk}):
        (tmp_path / "talk.json").write_text(json.dumps(content))
        assert main([*call, "--messages", str(tmp_path / "talk.json"), "--json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        assert row["messages"] == talk
        assert row["text"] == said(chatty, ("user", "the"), ("assistant", "cat"), ("user", "x"), max_new_tokens=9)


def test_a_conversation_on_a_terminal_goes_on_until_it_is_cleared(
    chatty: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["the", "cat\\", "sat", "", "/clear", "the", "x" * 300, "/exit", "never"])
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    assert main(["generate", str(chatty), "--chat", "--max-new-tokens", "9"]) == 0
    shown = capsys.readouterr()
    first = said(chatty, ("user", "the"), max_new_tokens=9)
    talk = (("user", "the"), ("assistant", first), ("user", "cat\nsat"))
    assert shown.out == f"{first}\n{said(chatty, *talk, max_new_tokens=9)}\n{first}\n"
    assert "do not fit into the model's 256 positions" in shown.err or "leaves no room" in shown.err
    assert "/clear begins anew" in shown.err
    assert next(lines) == "never"


def test_samples_and_biases_on_the_command_line(
    directories: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["generate", str(directories["llama"]), "--prompt", "the", "--max-new-tokens", "6", "--temperature", "1.4"]
    assert main([*call, "--n", "3", "--seed", "4", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    chosen = dict(max_new_tokens=6, temperature=1.4)
    assert [row["text"] for row in rows] == [
        right(directories["llama"], "the", seed=4 + i, **chosen)[0] for i in range(3)
    ]
    assert [row["sample"] for row in rows] == [0, 1, 2]
    first = rows[0]["tokens"][0]
    options = ["--logit-bias", f"{first}=-inf", "--frequency-penalty", "0.3", "--presence-penalty", "0.2"]
    assert main([*call, "--seed", "4", *options, "--min-new-tokens", "2", "--no-repeat-ngram-size", "2"]) == 0
    rules = dict(frequency_penalty=0.3, presence_penalty=0.2, min_new_tokens=2, no_repeat_ngram_size=2)
    wanted = right(directories["llama"], "the", seed=4, logit_bias={first: float("-inf")}, **rules, **chosen)[0]
    assert capsys.readouterr().out == wanted + "\n" != rows[0]["text"] + "\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--n", "2"], "n=2 samples of one prompt are the same text at temperature 0"),
        (["--n", "2", "--beam", "2"], "--beam finds one text for each prompt: leave out --n"),
        (["--logit-bias", "the=3"], "--logit-bias is TOKEN=NUMBER, such as 50=-inf, not 'the=3'"),
        (["--system", "x"], "--system is the first message of a conversation: add --chat"),
        (["--messages", "x.json"], "--messages hold a whole conversation: leave out --prompt, --chat and --system"),
        (["--chat"], "the tokenizer has no chat template"),
        (["--beam", "2", "--presence-penalty", "1"], "--beam chooses by score alone: leave out --presence-penalty"),
        (["--num-return-sequences", "3"], "did you mean --n?"),
        (["--system-prompt", "3"], "did you mean --system?"),
        (["--min-new-tokens", "90"], "--min-new-tokens 90 is more than --max-new-tokens 64"),
    ],
)
def test_mistakes_of_chat_and_sampling(
    words: list[str], sentence: str, directories: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(directories["llama"]), "--prompt", "the", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_what_the_directory_suggests_is_followed_unless_ignored(
    directories: dict[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model, words, _ = headway.load(directories["llama"])
    model.generation_defaults = headway.config.generation.GenerationDefaults.read(
        {"do_sample": True, "temperature": 1.4, "max_new_tokens": 5, "num_beams": 3}
    )
    headway.save(model, tmp_path / "m", tokenizer=words)
    call = ["generate", str(tmp_path / "m"), "--prompt", "the"]
    assert main(call) == 0
    shown = capsys.readouterr()
    assert shown.out == right(directories["llama"], "the", temperature=1.4, max_new_tokens=5)[0] + "\n"
    assert "decodes with max_new_tokens=5, temperature=1.4" in shown.err
    assert "suggested for decoding, not followed: num_beams=3" in shown.err
    assert main([*call, "--ignore-defaults"]) == 0
    model.generation_defaults = None
    assert capsys.readouterr().out == generate(model, "the").text + "\n"
