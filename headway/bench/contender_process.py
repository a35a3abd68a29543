"""A contender in a process of its own, as it would run for its user: what one library sets, others do not get."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch


class ContenderProcess:
    """`make(*arguments)` gives a call, in another process; each call here is one there, and its number comes back."""

    def __init__(self, make: Callable[..., Callable[[], Any]], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, make, arguments, torch.get_num_threads()), daemon=True
        )
        self._process.start()
        theirs.close()
        self._receive()

    def __call__(self) -> torch.Tensor:
        self._pipe.send(True)
        return torch.tensor(self._receive())

    def _receive(self) -> float:
        try:
            found = self._pipe.recv()
        except EOFError:
            raise RuntimeError("a contender's process ended") from None
        if isinstance(found, str):
            raise RuntimeError(found)
        return found

    def close(self) -> None:
        self._pipe.close()
        self._process.join(timeout=10)
        self._process.kill()


def _serve(pipe: Connection, make: Callable[..., Callable[[], Any]], arguments: tuple, threads: int) -> None:
    torch.set_num_threads(threads)
    try:
        call = make(*arguments)
        pipe.send(0.0)
        while pipe.recv():
            pipe.send(float(call()))
    except EOFError:  # nobody asks any more
        pass
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
