"""Bahdanau's encoder-decoder in the size of its paper (arXiv:1409.0473, appendix A): RNNsearch."""

from headway.config import RecurrentConfig


def rnnsearch() -> RecurrentConfig:
    """30,000 words on each side, embeddings of 620, hidden states of 1,000."""
    return RecurrentConfig(source_vocabulary=30000, vocabulary=30000, width=620, hidden=1000)


PRESETS = {"rnnsearch": rnnsearch}
