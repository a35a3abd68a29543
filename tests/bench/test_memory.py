"""Memory on cases whose peak can be counted by hand; every block is 512 x 512 float32 = 2^20 bytes."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from headway.bench.measure import PeakMemory, peak_memory, replay, tensors

BLOCK = 2**20
SMALL = 4096  # scalars that operators wrap into tensors


@pytest.fixture
def x():
    return torch.randn(512, 512)


def test_product_is_its_output_and_nothing_else(x):
    assert peak_memory(lambda: x @ x) == PeakMemory(BLOCK, BLOCK)
    assert peak_memory(lambda: x @ x).beyond == 0


def test_a_chain_that_frees_holds_two_at_a_time(x):
    found = peak_memory(lambda: x.exp().sin().cos().tan())
    assert found == PeakMemory(2 * BLOCK, BLOCK)


def test_a_chain_that_keeps_holds_all(x):
    def chain():
        first = x.exp()
        second = first.sin()
        return second.cos() + first

    assert BLOCK * 4 <= peak_memory(chain).peak <= BLOCK * 4 + SMALL


def test_in_place_and_views_take_nothing(x):
    assert peak_memory(lambda: x.exp_()) == PeakMemory(0, 0)
    assert peak_memory(lambda: x.mT[3:]) == PeakMemory(0, 0)  # the storage was alive before: not an output of this call


def test_a_view_of_a_new_tensor_counts_its_whole_storage(x):
    assert peak_memory(lambda: x.exp()[:1]) == PeakMemory(BLOCK, BLOCK)


def test_outputs_that_share_a_storage_count_once(x):
    def pair():
        y = x.exp()
        return {"whole": y, "parts": [y[:2], (y[2:],)]}

    assert peak_memory(pair) == PeakMemory(BLOCK, BLOCK)


def test_what_was_alive_before_is_neither_counted_nor_credited(x):
    held = [x.exp(), x.exp()]

    def swap():
        held.clear()
        return x.sin()

    assert peak_memory(swap) == PeakMemory(BLOCK, BLOCK)
    held.append(measure_and_keep(x))  # a block the profiler has seen before
    assert peak_memory(swap) == PeakMemory(BLOCK, BLOCK)


def measure_and_keep(x):
    kept = []
    peak_memory(lambda: kept.append(x.exp()))
    return kept[0]


def test_backward_counts_what_was_saved(x):
    leaf = x.clone().requires_grad_()

    def step():
        (gradient,) = torch.autograd.grad(leaf.exp().sin().sum(), leaf)
        return gradient

    # exp's result (saved twice over, one block), sin's result and its gradient, or two gradients in flight
    assert 3 * BLOCK <= peak_memory(step).peak <= 4 * BLOCK + SMALL
    assert peak_memory(step).output == BLOCK


def test_scratch_inside_a_kernel_is_seen():
    q = torch.randn(1, 2, 512, 64)
    table = torch.ones(512, 512, dtype=torch.bool).tril()
    plain = peak_memory(lambda: F.scaled_dot_product_attention(q, q, q))
    masked = peak_memory(lambda: F.scaled_dot_product_attention(q, q, q, attn_mask=table))
    assert plain.output == masked.output == q.nbytes
    assert plain.beyond > 0  # the flash kernel's own buffers: no tensor that Python could see
    assert masked.beyond >= plain.beyond + BLOCK  # and the mask turned into floats


def test_replay_by_hand():
    assert replay([(1, 30), (2, 40), (1, -30), (9, -50), (1, 10)]) == (70, {2: 40, 1: 10})
    assert replay([]) == (0, {})


def test_tensors_are_found_in_nests():
    one, two = torch.ones(2), torch.ones(3)
    assert [len(found) for found in tensors({"a": [one, (two, None)], "b": 5})] == [2, 3]


def test_the_profiler_writes_nothing_and_stderr_survives():
    code = (
        "import sys, torch; from headway.bench.measure import peak_memory\n"
        "peak_memory(lambda: torch.ones(3) + 1); print('still here', file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("", "still here\n")


def test_an_error_in_the_call_comes_through_with_stderr_restored(capfd):
    with pytest.raises(ZeroDivisionError):
        peak_memory(lambda: 1 / 0)
    print("back", file=sys.stderr)
    assert capfd.readouterr().err == "back\n"
