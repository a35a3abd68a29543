"""Models on disk: load and save, the key tables of the families, receipts."""

from headway.hub.load import Loaded, load
from headway.hub.receipt import Receipt
from headway.hub.save import save

__all__ = ["Loaded", "Receipt", "load", "save"]
