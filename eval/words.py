"""What counts as the same words, and how far two sentences are apart."""

import re
from collections.abc import Sequence

from num2words import num2words


def normalise(text: str) -> str:
    """Lower case, numbers as words, no punctuation; the same for what was said and what was heard."""
    text = text.lower().replace("’", "'")
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    text = re.sub(r"(\d+)(?:st|nd|rd|th)\b", lambda n: num2words(int(n[1]), to="ordinal"), text)
    text = re.sub(r"\d+", lambda n: f" {num2words(int(n[0]))} ", text)
    text = text.replace("'", "")
    return " ".join(re.sub(r"[\W_]+", " ", text).split())


def edits(said: Sequence, heard: Sequence) -> int:
    """The fewest insertions, deletions and substitutions that make one of the other."""
    row = list(range(len(heard) + 1))
    for i, a in enumerate(said, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(heard, 1):
            diagonal, row[j] = row[j], min(diagonal + (a != b), row[j] + 1, row[j - 1] + 1)
    return row[-1]


def error_rates(pairs: list[tuple[str, str]]) -> dict[str, float]:
    """Word and character error rates in per cent, over all (said, heard) pairs together."""
    pairs = [(normalise(said), normalise(heard)) for said, heard in pairs]
    words = sum(len(said.split()) for said, _ in pairs)
    characters = sum(len(said) for said, _ in pairs)
    return {
        "wer": 100 * sum(edits(said.split(), heard.split()) for said, heard in pairs) / words,
        "cer": 100 * sum(edits(said, heard) for said, heard in pairs) / characters,
        "sentences": len(pairs),
        "words": words,
    }
