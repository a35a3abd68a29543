"""Settings come from four places, and a wrong one is refused wherever it stands."""

import pytest
import yaml

from headway.app.settings import merged, resolve, written
from headway.config.train import TrainConfig

FILES = {
    "run.yaml": "steps: 7\noptim:\n  rate: 0.5\n  clip: 2.0\n",
    "run.toml": "steps = 7\n[optim]\nrate = 0.5\nclip = 2.0\n",
    "run.json": '{"steps": 7, "optim": {"rate": 0.5, "clip": 2.0}}',
}


@pytest.mark.parametrize("name", FILES)
def test_defaults_then_file_then_environment_then_command_line(tmp_path, name):
    file = tmp_path / name
    file.write_text(FILES[name])
    variables = {"HEADWAY_TRAIN_OPTIM__RATE": "0.25", "HEADWAY_TRAIN_BATCH": "3", "HOME": "/"}
    found = resolve({"batch": 5}, file=file, environment=variables)
    assert (found.steps, found.optim.rate, found.optim.clip, found.batch) == (7, 0.25, 2.0, 5)
    assert found.optim.eps == TrainConfig().optim.eps


def test_what_is_written_is_read_again():
    config = resolve({"task": "masked", "objectives": {"words": 2.0, "inverted": 1.0}, "data": {"train": ["a", "b"]}})
    assert TrainConfig(**yaml.safe_load(written(config))) == config


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("stepps: 3", r"no option 'stepps' \(did you mean steps\?\).*run.yaml"),
        ("optim: {rat: 3}", r"no option 'rat' \(did you mean rate\?\)"),
        ("optim: {rate: fast}", "rate='fast'"),
        ("- 3", "holds list where settings are expected"),
        ("a: [", "is not valid YAML"),
        ("objectives: {}", "no objective at all"),
        ("objectives: {wods: 1}", "no objective 'wods'"),
    ],
)
def test_a_wrong_setting_is_one_sentence(tmp_path, text, sentence):
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        resolve({}, file=file, environment={})


def test_a_wrong_variable_is_refused():
    with pytest.raises(ValueError, match="no option 'stps'"):
        resolve({}, environment={"HEADWAY_TRAIN_STPS": "3"})


def test_objectives_replace_the_default_instead_of_joining_it():
    assert merged({"objectives": {"words": 1}}, {"objectives": {"adjacent": 1}}) == {"objectives": {"adjacent": 1}}
