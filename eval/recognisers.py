"""Two recognisers that have nothing in common: a neural network, and a model of phones and word triples.

Both come from PyPI with their English models inside, so that nothing else is fetched.
"""

import numpy as np

from corpus import SAMPLE_RATE


class Moonshine:
    """Moonshine tiny-en. A sentence may come back as several lines."""

    name = "moonshine"

    def __init__(self):
        from moonshine_voice import ModelArch, Transcriber
        from moonshine_voice.utils import get_model_path

        self._transcriber = Transcriber(str(get_model_path("tiny-en")), ModelArch.TINY)

    def hear(self, samples: np.ndarray) -> str:
        transcript = self._transcriber.transcribe_without_streaming(samples.tolist(), SAMPLE_RATE)
        return " ".join(line.text.strip() for line in transcript.lines)


class PocketSphinx:
    """CMU Sphinx with its own English model. Each file is heard by itself: nothing is carried over."""

    name = "pocketsphinx"

    def __init__(self):
        from pocketsphinx import Decoder

        self._decoder = Decoder(samprate=SAMPLE_RATE, cmn="batch", loglevel="FATAL")

    def hear(self, samples: np.ndarray) -> str:
        pcm = (np.clip(samples, -1, 1) * 32_767).astype("<i2").tobytes()
        self._decoder.start_utt()
        self._decoder.process_raw(pcm, full_utt=True)
        self._decoder.end_utt()
        heard = self._decoder.hyp()
        return heard.hypstr if heard else ""


def all_recognisers():
    return [Moonshine(), PocketSphinx()]
