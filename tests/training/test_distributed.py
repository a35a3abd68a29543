"""Processes that meet: refusals in one sentence, and words that the dead do not know."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch.distributed as dist

from headway.config.train import ParallelConfig
from headway.training.distributed import World, agree_on_prefix, join


def test_without_torchrun_a_run_is_alone() -> None:
    world = join(ParallelConfig(), {})
    assert world.first and (world.size, world.data_size, world.tensor_size) == (1, 1, 1)
    assert world.sum([1.0, 2.5]) == [1.0, 2.5] and world.sums({"b": 1.0, "a": 2.0}) == {"a": 2.0, "b": 1.0}
    assert world.agree(True) and not world.agree(False)
    assert world.gather({"a": 1}) == [{"a": 1}] and world.share("x") == "x"
    world.barrier()
    world.leave()
    assert join(ParallelConfig(kind="fsdp"), {"WORLD_SIZE": "1", "RANK": "0"}).size == 1


@pytest.mark.parametrize(
    ("environment", "tensor", "sentence"),
    [
        ({}, 2, "parallel.tensor 2 shares each layer among 2 processes, which do not divide the 1 that run"),
        ({"WORLD_SIZE": "6"}, 4, "which do not divide the 6 that run: torchrun --nproc-per-node 4, or a multiple"),
        ({"WORLD_SIZE": "2", "RANK": "0"}, 1, "WORLD_SIZE is 2, but LOCAL_RANK is not set: start the processes with"),
    ],
)
def test_what_cannot_be_is_said(environment: dict[str, str], tensor: int, sentence: str) -> None:
    complete = dict.fromkeys(("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"), "0") if tensor == 4 else {}
    with pytest.raises(ValueError, match=sentence):
        join(ParallelConfig(tensor=tensor), {**complete, **environment})


def test_the_processes_of_one_attempt_share_a_word_that_those_before_did_not_know() -> None:
    store, words = dist.HashStore(), []
    for _ in range(3):
        with ThreadPoolExecutor(3) as pool:
            found = [pool.submit(agree_on_prefix, store, rank, 3) for rank in range(3)]
        assert len({one.result() for one in found}) == 1
        words.append(found[0].result())
    assert len(set(words)) == 3


def test_a_process_that_never_comes_is_named() -> None:
    store = dist.HashStore()
    store.set("hello/1", "a word of the dead")
    with pytest.raises(TimeoutError, match="process 1 of 2 did not come"):
        agree_on_prefix(store, 0, 2, seconds=0.1)


def test_a_world_is_a_grid() -> None:
    world = World(rank=5, size=6, data_rank=2, data_size=3)
    assert world.tensor_size == 2 and not world.first
