"""A contender in a process of its own, as it would run for its user: what one library sets, others do not get.

The process may run another Python, such as that of an environment where the peers are installed. Here torch is not
imported before the contender asks for it, so that a library with threads of its own has the process to itself.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

START = "import sys; sys.path.append(sys.argv[1]); from headway.bench import contender_process as one; one.serve()"
ROOT = Path(__file__).parents[2]  # the directory that holds the package


class ContenderProcess:
    """`make(*arguments)` gives an object in another process; its methods are called from here.

    `python` is the interpreter, this one by default. The process gets as many threads as torch has here.
    """

    def __init__(self, make: Callable[..., Any], *arguments: Any, python: str | Path = sys.executable) -> None:
        import torch

        self._pipe, theirs = Pipe()
        self._process = subprocess.Popen(
            [str(python), "-c", START, str(ROOT), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno() if _has_file(sys.stderr) else subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads()), "TOKENIZERS_PARALLELISM": "true"},
        )
        theirs.close()
        try:
            self._pipe.send_bytes(pickle.dumps((make, arguments)))
            self._receive()
        except BaseException:
            self.close()
            raise

    def ask(self, method: str, *arguments: Any) -> Any:
        """What a method of the object returns; tensors come back as arrays."""
        self._pipe.send((method, arguments, True))
        return self._receive()

    def run(self, method: str, *arguments: Any) -> None:
        """The same call, for its time: the result stays where it is."""
        self._pipe.send((method, arguments, False))
        self._receive()

    def __call__(self) -> Any:
        """The number that a contender which is a plain function returns, as a tensor."""
        import torch

        return torch.as_tensor(self.ask("__call__"))

    def _receive(self) -> Any:
        try:
            problem, found = self._pipe.recv()
        except EOFError:
            raise RuntimeError("a contender's process ended") from None
        if problem:
            raise RuntimeError(problem)
        return _unpacked(found)

    def close(self) -> None:
        self._pipe.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve() -> None:
    """The other process: makes the object, then answers calls until nobody asks any more."""
    pipe = Connection(int(sys.argv[2]))
    try:
        make, arguments = pickle.loads(pipe.recv_bytes())
        contender = make(*arguments)
        pipe.send(("", None))
        while True:
            method, given, wanted = pipe.recv()
            found = getattr(contender, method)(*given)
            pipe.send(("", _packed(found) if wanted else None))
    except EOFError:
        pass
    except Exception as error:
        pipe.send((f"{type(error).__name__}: {error}", None))


def _packed(value: Any) -> Any:
    """Without torch's and numpy's own pickles, which need the same release on the other side."""
    if type(value).__name__ == "Tensor":
        value = value.detach().float().numpy()
    if type(value).__name__ == "ndarray":
        return {"dtype": str(value.dtype), "shape": value.shape, "bytes": value.tobytes()}
    return value


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"dtype", "shape", "bytes"}:
        import numpy as np

        return np.frombuffer(bytearray(value["bytes"]), value["dtype"]).reshape(value["shape"])
    return value


def _has_file(stream: Any) -> bool:
    try:
        return stream.fileno() >= 0
    except (OSError, ValueError, AttributeError):  # a test that keeps what is written
        return False
