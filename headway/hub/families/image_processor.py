"""What becomes of a picture, as preprocessor_config.json (transformers) and pretrained_cfg (timm) say it, and back."""

from collections.abc import Mapping
from typing import Any

from headway.config.base import Extent, Pair, sides
from headway.config.vision import Images

# Of a processor, by the beginning of its name: the size, whether a middle is cut out, the number of Pillow's filter.
DEFAULTS: dict[str, tuple[Any, bool, int]] = {
    "DeiT": (256, True, 3),
    "Bit": ({"shortest_edge": 224}, True, 3),
    "CLIP": ({"shortest_edge": 224}, True, 3),
    "Siglip": (224, False, 3),
}
RESAMPLES = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")  # in the order of Pillow's numbers


def images_of(said: Mapping[str, Any] | None) -> Images:
    """From preprocessor_config.json; what it leaves out follows from the processor that it names.

    >>> images_of({"size": 224, "image_mean": [0.5, 0.4, 0.3]}).resize
    (224, 224)
    """
    if not said:
        return Images()
    kind = str(said.get("image_processor_type") or said.get("feature_extractor_type"))
    resize, crops, resample = next((row for name, row in DEFAULTS.items() if kind.startswith(name)), (224, False, 2))
    normal = said.get("do_normalize", True)
    return Images(
        resize=_size(said.get("size", resize)) if said.get("do_resize", True) else None,
        crop=_pair(said.get("crop_size", 224)) if said.get("do_center_crop", crops) else None,
        resample=_resample(said.get("resample", resample)),
        scale=said.get("rescale_factor", 1 / 255) if said.get("do_rescale", True) else 1.0,
        mean=said.get("image_mean") or (0.5,) if normal else (0.0,),
        std=said.get("image_std") or (0.5,) if normal else (1.0,),
    )


def images_to(images: Images, image: Extent, channels: int, *, processor: str = "") -> dict[str, Any]:
    """preprocessor_config.json of a model that reads images of this size; `processor` is the class that reads it."""
    resize = images.resize or sides(image)
    size = {"shortest_edge": resize} if isinstance(resize, int) else {"height": resize[0], "width": resize[1]}
    cut = {} if images.crop is None else {"crop_size": {"height": images.crop[0], "width": images.crop[1]}}
    return {
        "image_processor_type": processor or ("DeiTImageProcessor" if cut else "ViTImageProcessor"),
        "do_resize": True,
        "size": size,
        "resample": RESAMPLES.index(images.resample),
        "do_center_crop": bool(cut),
        **cut,
        "do_rescale": True,
        "rescale_factor": images.scale,
        "do_normalize": True,
        "image_mean": _each(images.mean, channels),
        "image_std": _each(images.std, channels),
    }


def images_of_timm(said: Mapping[str, Any], image: Pair) -> Images:
    """From pretrained_cfg: a picture is resized to size / crop_pct, and its middle is cut out.

    >>> images_of_timm({"crop_pct": 0.95, "interpolation": "bicubic"}, (224, 224)).resize
    235
    """
    mode, share = said.get("crop_mode") or "center", said.get("crop_pct") or 0.875
    if mode not in ("center", "squash") or (mode == "center" and image[0] != image[1]):
        raise ValueError(f"headway does not cut pictures of {image[0]} x {image[1]} with crop_mode={mode!r}")
    rows, columns = (int(side / share) for side in image)
    return Images(
        resize=rows if mode == "center" else (rows, columns),
        crop=image,
        resample=_resample(said.get("interpolation", "bilinear")),
        mean=said.get("mean") or (0.485, 0.456, 0.406),
        std=said.get("std") or (0.229, 0.224, 0.225),
    )


def images_to_timm(images: Images, image: Pair, channels: int) -> dict[str, Any]:
    """The part of pretrained_cfg that speaks of pictures."""
    resize = images.resize or image
    if images.scale != 1 / 255:
        raise ValueError(
            f"timm divides pixels by 255, and these are multiplied by {images.scale}: save with layout='headway'"
        )
    first = resize if isinstance(resize, int) else resize[0]
    return {
        "input_size": [channels, *image],
        "interpolation": images.resample,
        # Half a pixel more, so that what is rounded down again is the same number.
        "crop_pct": 1.0 if first == image[0] else round(image[0] / (first + 0.5), 6),
        "crop_mode": "center" if isinstance(resize, int) else "squash",
        "mean": _each(images.mean, channels),
        "std": _each(images.std, channels),
    }


def _size(said: Any) -> Extent:
    if isinstance(said, Mapping) and "shortest_edge" in said and "longest_edge" not in said:
        return int(said["shortest_edge"])
    return _pair(said)


def _pair(said: Any) -> Pair:
    """Rows and columns: two of them by name, or one number for both."""
    if isinstance(said, int):
        return (said, said)
    if isinstance(said, Mapping) and set(said) == {"height", "width"}:
        return (int(said["height"]), int(said["width"]))
    raise ValueError(f"headway does not read a picture's size from {said!r}; it reads height and width")


def _resample(said: Any) -> Any:
    name = RESAMPLES[said] if isinstance(said, int) and 0 <= said < len(RESAMPLES) else said
    if name not in RESAMPLES:
        raise ValueError(f"headway does not resize pictures with {said!r}, only with {', '.join(RESAMPLES)}")
    return name


def _each(values: tuple[float, ...], channels: int) -> list[float]:
    return list(values) * channels if len(values) == 1 else list(values)
