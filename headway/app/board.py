"""The numbers of a run for TensorBoard, beside metrics.jsonl, which is always written."""

from pathlib import Path
from typing import Any

from headway.training.loop import Event


class Board:
    """Event files in `tensorboard/` of a run; without the extra it says how to get it."""

    def __init__(self, directory: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError('TensorBoard is not installed: pip install "headway[tensorboard]"') from None
        self._writer: Any = SummaryWriter(str(directory / "tensorboard"))

    def show(self, event: Event) -> None:
        """Every number of a training or validation line, by its name."""
        if event.kind in ("train", "validation"):
            step = event.row["step"]
            for name, value in event.row.items():
                if name != "step" and isinstance(value, int | float):
                    self._writer.add_scalar(f"{event.kind}/{name}", value, step)

    def close(self) -> None:
        self._writer.close()
