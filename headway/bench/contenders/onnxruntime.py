"""ONNX Runtime for sentence encoders: exported by torch, fused by ONNX Runtime's own optimiser for BERT."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from headway.bench.contenders import ContenderSetup
from headway.bench.contenders.sentences import SentenceReader


class OnnxRuntimeSentence:
    def __init__(self, setup: ContenderSetup) -> None:
        self.setup = setup
        self.path = Path(setup.work) / f"encoder-{setup.precision}.onnx"
        if not self.path.exists():
            whole = exported(setup.directory, Path(setup.work))
            _quantised(whole, self.path) if setup.precision == "int8" else whole.replace(self.path)

    def load(self) -> None:
        onnxruntime: Any = import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.setup.threads, 1
        self.session: Any = onnxruntime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
        self.reader = SentenceReader(self.setup.directory)

    def encode(self, texts: list[str]) -> Any:
        return self.reader.encode(texts, self._hidden)

    def _hidden(self, rows: list[list[int]]) -> Any:
        longest = max(map(len, rows))
        tokens = np.array([row + [0] * (longest - len(row)) for row in rows])
        keep = np.arange(longest) < np.array([len(row) for row in rows])[:, None]
        return self.session.run(["hidden"], {"input_ids": tokens, "attention_mask": keep.astype(np.int64)})[0]


def exported(directory: str, work: Path) -> Path:
    """The encoder as one file, its attention, norms and activations fused."""
    import warnings

    import torch
    from transformers import AutoModel

    encoder: Any = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, tokens: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
            return self.encoder(input_ids=tokens, attention_mask=keep).last_hidden_state

    plain, fused = work / "encoder-plain.onnx", work / "encoder-fused.onnx"
    example, names = torch.ones(2, 7, dtype=torch.long), ["input_ids", "attention_mask"]
    axes = {name: {0: "B", 1: "L"} for name in (*names, "hidden")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Hidden().eval(), (example, example), str(plain), input_names=names, output_names=["hidden"],
            dynamic_axes=axes, dynamo=False,
        )  # fmt: skip
    config = encoder.config
    sizes = {"num_heads": config.num_attention_heads, "hidden_size": config.hidden_size}
    optimizer: Any = import_module("onnxruntime.transformers.optimizer")
    optimizer.optimize_model(str(plain), model_type="bert", **sizes).save_model_to_file(str(fused))
    return fused


def _quantised(source: Path, target: Path) -> None:
    quantization: Any = import_module("onnxruntime.quantization")
    kind = {"DefaultTensorType": import_module("onnx").TensorProto.FLOAT}  # what fused operations give
    quantization.quantize_dynamic(
        str(source), str(target), weight_type=quantization.QuantType.QInt8, extra_options=kind
    )
