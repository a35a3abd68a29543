"""What is written is what another library reads."""

import io

import numpy as np
import pytest
from PIL import Image

from headway.render.png import data_address, png


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB"), (4, "RGBA")])
def test_another_library_reads_the_same_pixels(channels: int, mode: str) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (5, 7, channels), np.uint8)
    picture = Image.open(io.BytesIO(png(pixels.tobytes(), width=7, height=5, channels=channels)))
    assert picture.mode == mode
    assert (np.asarray(picture).reshape(pixels.shape) == pixels).all()


def test_a_page_can_carry_it() -> None:
    assert data_address(png(b"\0", width=1, height=1, channels=1)).startswith("data:image/png;base64,iVBOR")


@pytest.mark.parametrize(("size", "channels"), [(5, 1), (0, 1), (8, 2)])
def test_what_is_no_picture_is_refused(size: int, channels: int) -> None:
    with pytest.raises(ValueError, match="picture"):
        png(bytes(size), width=2, height=2, channels=channels)
