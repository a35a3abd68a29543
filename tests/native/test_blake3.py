"""BLAKE3 by every instruction set and by NumPy: published values, each other, and numbers that are not finite."""

import threading

import pytest
import torch

from headway.native.blake3 import Scan, blake3
from headway.native.build import switched_off

# Test vectors of the specification: bytes 0, 1, ... 250, 0, 1, ...
PUBLISHED = {
    0: "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
    1: "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
    1023: "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11",
    1024: "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7",
    1025: "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444",
    2049: "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b68795225630",
    5120: "9cadc15fed8b5d854562b26a9536d9707cadeda9b143978f319ab34230535833",
    7169: "a003fc7a51754a9b3c7fae0367ab3d782dccf28855a03d435f8cfe74605e7817",
}


def counting(size: int) -> torch.Tensor:
    return (torch.arange(size) % 251).to(torch.uint8)


@pytest.mark.parametrize("size", PUBLISHED)
def test_published_values(kernels: str, size: int) -> None:
    found = Scan({"x": counting(size)}).results()["x"].hash
    assert found.startswith(PUBLISHED[size]) and found == blake3(counting(size))


@pytest.mark.parametrize("size", [3 * 1024, 4 * 1024 + 1, 17 * 1024 + 5, 2**22 - 1, 2**22, 2**22 + 1, 5 * 2**21 + 777])
def test_parts_and_lanes_are_the_same_tree(kernels: str, size: int) -> None:
    assert Scan({"x": counting(size)}).results()["x"].hash == blake3(counting(size))


def test_every_bit_counts(kernels: str) -> None:
    x = torch.zeros(40_000, dtype=torch.uint8)
    seen = {Scan({"x": x}).results()["x"].hash}
    for place in (0, 63, 64, 1023, 1024, 16_383, 16_384, 32_768, 39_935, 39_936, 39_999):
        x[place] ^= 1 << (place % 8)
        seen.add(Scan({"x": x}).results()["x"].hash)
    assert len(seen) == 12


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("hashed", [True, False])
def test_numbers_that_are_not_finite(kernels: str, dtype: torch.dtype, hashed: bool) -> None:
    sizes = (1, 7, 8191, 8192, 70_001)
    tensors = {str(size): torch.full((size,), torch.finfo(dtype).max, dtype=dtype) for size in sizes}
    assert all(scan.finite for scan in Scan(tensors, hashed=hashed).results().values())
    for bad in (torch.nan, torch.inf, -torch.inf):
        for x in tensors.values():
            x[-1] = bad
        found = Scan({**tensors, "whole": torch.full((9,), -1)}, hashed=hashed).results()
        assert {name for name, scan in found.items() if scan.finite} == {"whole"}


def test_without_kernels_it_is_the_same() -> None:
    tensors = {"x": torch.randn(3, 701), "y": torch.tensor([torch.nan]), "none": torch.zeros(0, 3)}
    by_kernels = Scan(tensors).results()
    with switched_off():
        assert Scan(tensors).results() == by_kernels


def test_a_pass_that_nobody_wants_ends(kernels: str) -> None:
    before = threading.active_count()
    scan = Scan({"x": torch.zeros(2**24, dtype=torch.uint8)})
    scan.stop()
    assert threading.active_count() == before
