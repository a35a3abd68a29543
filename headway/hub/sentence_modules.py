"""The steps of a sentence encoder, as sentence-transformers writes them down, read and written.

    modules.json                  Transformer, Pooling, perhaps Dense, perhaps Normalize, each with its folder
    sentence_bert_config.json     how many tokens of a text are read
    1_Pooling/config.json         how vectors become one
    2_Dense/config.json           a linear map and its curve

Whatever these files ask for that headway does not compute is refused.
"""

from pathlib import Path
from typing import Any

from headway.config.read_file import read_json as read_any
from headway.config.text import DenseConfig, MaskedConfig, Pooling, SentenceConfig
from headway.data.files import read_json, read_optional, write_json
from headway.data.tokenizer import SETTINGS
from headway.hub.families.common import refuse

MODULES, LIMIT, EXTRAS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
ORDER = ("Transformer", "Pooling", "Dense", "Normalize")
# Their name of a pooling -> ours. Older files, which every release reads, have a switch for each.
POOLINGS: dict[str, Pooling] = {"cls": "cls", "max": "max", "mean": "mean", "mean_sqrt_len_tokens": "mean_sqrt_len"}
SWITCHES = {
    "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max", "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}  # fmt: skip
CURVES = {
    "torch.nn.modules.activation.Tanh": "tanh", "torch.nn.modules.linear.Identity": "identity",
    "torch.nn.modules.activation.ReLU": "relu", "torch.nn.modules.activation.GELU": "gelu",
    "torch.nn.modules.activation.SiLU": "silu", "torch.nn.modules.activation.Sigmoid": "sigmoid",
}  # fmt: skip
ONE_VECTOR = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}
TOKEN_VECTORS = {
    "transformer_task": "feature-extraction",
    "module_output_name": "token_embeddings",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "processing_kwargs": {},
    "query_length": None,
    "document_length": None,
    "query_expansion": None,
}


def read_steps(directory: Path) -> dict[str, Path]:
    """Each step's folder, by its name; steps in another order, or others, are refused."""
    where = directory / MODULES
    found = read_any(where)
    try:
        rows = [(str(row["type"]).rpartition(".")[2], str(row["path"])) for row in found]
    except (TypeError, KeyError):
        raise ValueError(f"{where} is no list of modules with a type and a path") from None
    names = [name for name, _ in rows]
    if names[:2] != list(ORDER[:2]) or names != [name for name in ORDER if name in names]:
        raise ValueError(f"{where} asks for {', '.join(names)}; headway computes {', '.join(ORDER)}, in this order")
    for _, path in rows:
        if Path(path).is_absolute() or ".." in Path(path).parts:
            raise ValueError(f"{where} names {path!r}, which is not a folder of its own directory")
    return {name: directory / path for name, path in rows}


def read_pooling(folder: Path, width: int) -> Pooling:
    """Our name of the pooling."""
    config = read_json(folder / "config.json")
    chosen = config.get("pooling_mode") or [mode for key, mode in SWITCHES.items() if config.get(key)] or "mean"
    modes = [chosen] if isinstance(chosen, str) else list(chosen)
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise ValueError(f"{folder} pools by {' and '.join(map(str, modes))}; headway by one of {', '.join(POOLINGS)}")
    given = config.get("embedding_dimension", config.get("word_embedding_dimension", width))
    if given != width:
        raise ValueError(f"{folder} pools vectors of width {given}, and the encoder's have width {width}")
    return POOLINGS[modes[0]]


def read_dense(folder: Path, width: int) -> DenseConfig:
    config = read_json(folder / "config.json")
    refuse(config, {"in_features": width, "use_residual": False, **ONE_VECTOR})
    curve = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    if curve not in CURVES:
        raise ValueError(f"{folder} has activation_function={curve!r}; headway reads {', '.join(CURVES)}")
    return DenseConfig(width=config["out_features"], activation=CURVES[curve], bias=config.get("bias", True))


def read_limit(folder: Path, encoder: MaskedConfig) -> tuple[int, bool]:
    """How many tokens of a text are read, and whether all letters are made small first."""
    config = read_optional(folder / LIMIT)
    refuse(config, TOKEN_VECTORS)
    said = config.get("max_seq_length") or read_optional(folder / SETTINGS).get("model_max_length") or encoder.length
    return int(min(said, encoder.length)), bool(config.get("do_lower_case"))


def read_prompt(directory: Path, pooling: Path) -> str:
    """What stands before every text: the prompt that is named as the default, if one is."""
    config = read_optional(directory / EXTRAS)
    refuse(config, {"truncate_dim": None})
    name = config.get("default_prompt_name")
    prompt = str((config.get("prompts") or {}).get(name, "")) if name else ""
    if prompt:
        refuse(read_json(pooling / "config.json"), {"include_prompt": True})
    return prompt


def write_steps(config: SentenceConfig, directory: Path) -> dict[str, Path]:
    """Everything but the weights; returns the folders of the steps."""
    wanted = {"Dense": config.dense is not None, "Normalize": config.normalise}
    names = [name for name in ORDER if wanted.get(name, True)]
    folders = {name: "" if name == "Transformer" else f"{index}_{name}" for index, name in enumerate(names)}
    rows = [
        {"idx": index, "name": str(index), "path": folders[name], "type": f"sentence_transformers.models.{name}"}
        for index, name in enumerate(names)
    ]
    write_json(directory / MODULES, rows)
    write_json(directory / LIMIT, {"max_seq_length": config.limit, "do_lower_case": False})
    write_json(directory / EXTRAS, _extras(config))
    for name, path in folders.items():
        (directory / path).mkdir(exist_ok=True)
        if name in ("Pooling", "Dense", "Normalize"):
            write_json(directory / path / "config.json", _settings(name, config))
    return {name: directory / path for name, path in folders.items()}


def _settings(name: str, config: SentenceConfig) -> dict[str, Any]:
    width = config.encoder.stack.block.output_width
    if name == "Pooling":
        switches = {key: POOLINGS.get(mode) == config.pooling for key, mode in SWITCHES.items()}
        return {"word_embedding_dimension": width, **switches, "include_prompt": True}
    if name == "Normalize":
        return {}
    assert config.dense is not None
    curve = next((theirs for theirs, ours in CURVES.items() if ours == config.dense.activation), None)
    if curve is None:
        raise ValueError(f"sentence-transformers reads no {config.dense.activation}: save with layout='headway'")
    sizes = {"in_features": width, "out_features": config.dense.width, "bias": config.dense.bias}
    return {**sizes, "activation_function": curve}


def _extras(config: SentenceConfig) -> dict[str, Any]:
    prompts = {"default": config.prompt} if config.prompt else {}
    return {"prompts": prompts, "default_prompt_name": "default" if prompts else None, "similarity_fn_name": "cosine"}
