"""python -m unittest discover eval"""

import unittest

from words import edits, error_rates, normalise


class Words(unittest.TestCase):
    def test_case_punctuation_and_figures_do_not_count(self):
        self.assertEqual(normalise("Ruth wants 6 eggs, and 7 coins!"), "ruth wants six eggs and seven coins")
        self.assertEqual(normalise("Don’t"), normalise("dont"))
        self.assertEqual(normalise("the 2nd of 1,200"), "the second of one thousand two hundred")
        self.assertEqual(normalise("well-known"), "well known")

    def test_edits(self):
        self.assertEqual(edits("kitten", "sitting"), 3)
        self.assertEqual(edits([], ["a", "b"]), 2)
        self.assertEqual(edits(["a", "b"], []), 2)
        self.assertEqual(edits(["a"], ["a"]), 0)

    def test_rates_are_over_all_words_not_means_of_sentences(self):
        rates = error_rates([("a b c", "a b c"), ("d", "x")])
        self.assertEqual(rates["wer"], 25.0)
        self.assertEqual(rates["words"], 4)

    def test_hearing_more_than_was_said_can_cost_more_than_everything(self):
        self.assertGreater(error_rates([("a", "b c d")])["wer"], 100)


if __name__ == "__main__":
    unittest.main()
