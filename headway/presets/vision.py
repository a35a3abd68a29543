"""ViT, DeiT and DaViT in their published sizes, with a classifier of ImageNet's 1,000 classes.

ViT: Dosovitskiy et al. 2020, arXiv:2010.11929 (small and tiny: Steiner et al. 2021, arXiv:2106.10270). DeiT: Touvron et
al. 2020, arXiv:2012.12877. DaViT: Ding et al. 2022, arXiv:2204.03645.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from headway.config.base import Extent, sides
from headway.config.layers import AttentionConfig, BlockConfig, FeedForwardConfig, StackConfig
from headway.config.spec import Spec, read_spec
from headway.config.vision import DaViTConfig, Images, VisionConfig

# Mean and deviation of ImageNet's channels.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def vit(
    *,
    width: int,
    heads: int,
    layers: int,
    hidden: int | None = None,
    image: Extent = 224,
    patch: Extent = 16,
    channels: int = 3,
    activation: str = "gelu",
    bias: bool = True,
    eps: float = 1e-12,
    dropout: float = 0.0,
    mechanism: Spec | None = None,
    table_image: Extent | None = None,
    family: str = "vit",
    class_token: bool = True,
    distilled: bool = False,
    teacher: bool = False,
    pooler: bool = False,
    classes: int = 0,
    labels: tuple[str, ...] = (),
    images: Images | None = None,
) -> VisionConfig:
    """A ViT of any size: pre-norm, biases everywhere; the feed-forward is four times as wide where nobody says.

    >>> vit(width=768, heads=12, layers=12).grid
    (14, 14)
    """
    attention = AttentionConfig(
        width=width, heads=heads, bias=bias, output_bias=True, mechanism=mechanism or read_spec("softmax")
    )
    block = BlockConfig(
        attention=attention,
        feedforward=FeedForwardConfig(hidden=4 * width if hidden is None else hidden, activation=activation),
        eps=eps,
        dropout=dropout,
    )
    return VisionConfig(
        family=family, image=image, patch=patch, channels=channels,
        stack=StackConfig(block=block, layers=layers, final_norm=True), table_image=table_image,
        class_token=class_token, distilled=distilled,
        teacher=teacher, pooling="class" if class_token else "mean", pooler=pooler, classes=classes, labels=labels,
        images=images or Images(),
    )  # fmt: skip


def davit(
    *,
    depths: tuple[int, ...],
    widths: tuple[int, ...],
    heads: tuple[int, ...],
    image: Extent = 224,
    classes: int = 1000,
    **rest: Any,
) -> DaViTConfig:
    """A DaViT of any size; pictures are cut from the middle 95 %, as its authors did."""
    size = sides(image)
    images = Images(resize=int(min(size) / 0.95), crop=size, resample="bicubic", mean=MEAN, std=STD)
    return DaViTConfig(
        family="davit", image=image, depths=depths, widths=widths, heads=heads, classes=classes, images=images, **rest
    )


def _deit(*, width: int, heads: int, distilled: bool = False) -> VisionConfig:
    """Without distillation a DeiT is a ViT, and its files say so."""
    images = Images(resize=256, crop=(224, 224), resample="bicubic", mean=MEAN, std=STD)
    return vit(
        width=width, heads=heads, layers=12, classes=1000, images=images, family="deit" if distilled else "vit",
        distilled=distilled, teacher=distilled,
    )  # fmt: skip


_vit = partial(vit, classes=1000)
_tiny, _small, _base = dict(width=192, heads=3), dict(width=384, heads=6), dict(width=768, heads=12)
_large, _huge = dict(width=1024, heads=16), dict(width=1280, heads=16)
_davit_small = dict(widths=(96, 192, 384, 768), heads=(3, 6, 12, 24))
_davit_base = dict(depths=(1, 1, 9, 1), widths=(128, 256, 512, 1024), heads=(4, 8, 16, 32))
_davit_huge = dict(depths=(1, 1, 9, 1), widths=(256, 512, 1024, 2048), heads=(8, 16, 32, 64))
# The image towers of Florence-2 (Xiao et al. 2023, arXiv:2311.06242): larger windows, another scale, no classes.
_florence = dict(image=768, classes=0, window=12, kernel=3, scaled="positions")

PRESETS: dict[str, Callable[[], VisionConfig | DaViTConfig]] = {
    "vit-ti16": partial(_vit, **_tiny, layers=12),
    "vit-s16": partial(_vit, **_small, layers=12),
    "vit-b16": partial(_vit, **_base, layers=12),
    "vit-b32": partial(_vit, **_base, layers=12, patch=32),
    "vit-l16": partial(_vit, **_large, layers=24),
    "vit-l32": partial(_vit, **_large, layers=24, patch=32),
    "vit-h14": partial(_vit, **_huge, layers=32, patch=14),
    "deit-tiny": partial(_deit, **_tiny),
    "deit-small": partial(_deit, **_small),
    "deit-base": partial(_deit, **_base),
    "deit-tiny-distilled": partial(_deit, **_tiny, distilled=True),
    "deit-small-distilled": partial(_deit, **_small, distilled=True),
    "deit-base-distilled": partial(_deit, **_base, distilled=True),
    "davit-tiny": partial(davit, **_davit_small, depths=(1, 1, 3, 1)),
    "davit-small": partial(davit, **_davit_small, depths=(1, 1, 9, 1)),
    "davit-base": partial(davit, **_davit_base),
    "davit-large": partial(davit, depths=(1, 1, 9, 1), widths=(192, 384, 768, 1536), heads=(6, 12, 24, 48)),
    "davit-huge": partial(davit, **_davit_huge),
    "davit-giant": partial(davit, depths=(1, 1, 12, 3), widths=(384, 768, 1536, 3072), heads=(12, 24, 48, 96)),
    "davit-base-fl": partial(davit, **_davit_base, **_florence),
    "davit-huge-fl": partial(davit, **_davit_huge, **_florence),
}
