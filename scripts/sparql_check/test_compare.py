"""Tests of the comparison of answers, of the order of rows, and of shrinking."""

import unittest
from pathlib import Path

from .compare import DIFFERENT, EQUAL, LEXICAL, compare
from .engines import answer_of_json, answer_of_triples
from .generate import Case, Generator, leaf
from .reasons import LEXICAL_FORMS, REASONS, is_ordered
from .shrink import shrink

XSD = "http://www.w3.org/2001/XMLSchema#"


def rows(*texts: str) -> tuple:
    """Returns solutions of `?o` for terms in N-Triples."""
    found = []
    for text in texts:
        _, triples = answer_of_triples(f"<http://s> <http://p> {text} .".encode())
        found += [tuple((name, term) for name, term in row if name == "o") for row in triples]
    return ("rows", found)


class Compare(unittest.TestCase):
    def test_rows_are_multisets(self) -> None:
        self.assertEqual(compare(rows('"a"', '"b"'), rows('"b"', '"a"')), EQUAL)
        self.assertEqual(compare(rows('"a"', '"a"'), rows('"a"')), DIFFERENT)
        self.assertEqual(compare(rows('"a"@en'), rows('"a"')), DIFFERENT)

    def test_blank_nodes_have_any_labels(self) -> None:
        loop, pair = b"_:a <http://p> _:a .\n_:b <http://p> _:b .", b"_:x <http://p> _:y .\n_:y <http://p> _:x ."
        self.assertEqual(compare(answer_of_triples(loop), answer_of_triples(loop.replace(b"_:a", b"_:c"))), EQUAL)
        self.assertEqual(compare(answer_of_triples(loop), answer_of_triples(pair)), DIFFERENT)

    def test_lexical_forms_of_one_value_are_told_from_values(self) -> None:
        for one, other in (("01", "1"), ("+1", "1")):
            self.assertEqual(compare(rows(f'"{one}"^^<{XSD}integer>'), rows(f'"{other}"^^<{XSD}integer>')), LEXICAL)
        self.assertEqual(compare(rows(f'"1.0E0"^^<{XSD}double>'), rows(f'"1"^^<{XSD}double>')), LEXICAL)
        self.assertEqual(compare(rows(f'"1"^^<{XSD}double>'), rows(f'"1"^^<{XSD}integer>')), DIFFERENT)
        self.assertEqual(compare(rows(f'"10"^^<{XSD}decimal>'), rows(f'"1"^^<{XSD}decimal>')), DIFFERENT)

    def test_all_errors_are_equal(self) -> None:
        truth = answer_of_json(b'{"head": {}, "boolean": true}')
        self.assertEqual(compare(("error", "a"), ("error", "b")), EQUAL)
        self.assertEqual(compare(("error", "a"), truth), DIFFERENT)

    def test_rows_out_of_order_are_seen(self) -> None:
        case = Case([], leaf("select", "SELECT ?o { ?s ?p ?o } ORDER BY ?o"), False)
        number = f'"10"^^<{XSD}integer>'
        self.assertTrue(is_ordered(case, rows("<http://a>", "<http://b>", '"10"', '"9"@en', f'"9"^^<{XSD}integer>', number)))
        self.assertFalse(is_ordered(case, rows(number, f'"9"^^<{XSD}double>')))
        self.assertFalse(is_ordered(case, rows('"a"', "<http://a>")))

    def test_the_documentation_has_all_reasons(self) -> None:
        page = (Path(__file__).parent.parent.parent / "docs/internals/rdf.md").read_text()
        lines = [f"| {reason.engine} | {reason.text} | {reason.paragraph} |" for reason in REASONS]
        self.assertEqual([line for line in lines if line not in page], [])
        self.assertIn(LEXICAL_FORMS.split(" (")[0], page)

    def test_a_smaller_case_is_found(self) -> None:
        generator = Generator(3)
        while True:
            case = generator.case([("", ":n1 :p1 1 ."), (":g0", ":n2 :p2 2 .")])
            if "OPTIONAL" in case.text():
                break
        small = shrink(case, lambda less: "OPTIONAL" in less.text() and ":n2" in less.data())
        self.assertLess(len(small.text()), len(case.text()))
        self.assertEqual(small.data(), "GRAPH :g0 { :n2 :p2 2 . }")


if __name__ == "__main__":
    unittest.main()
