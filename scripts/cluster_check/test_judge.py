"""Tests of the judge on histories made by hand, and on random histories of a register against all possible orders.

    python3 -m unittest discover --start-directory scripts --pattern 'test_judge.py' --top-level-directory scripts
"""

import itertools
import random
import unittest

from cluster_check.history import FAIL, INFO, OK, Operation
from cluster_check.judge import judge, linearizable


def operation(process, f, key, value, begin, end, result=None, outcome=OK, version=None):
    return Operation(process, f, key, value, begin, float("inf") if outcome == INFO else end, outcome, result, version)


def append(number, begin, end, *, key="h", outcome=OK, process="w"):
    return operation(process, "append", key, number, begin, end, outcome=outcome, version=stamp(number))


def stamp(number):
    return f"2026-01-01T00:00:00.{number:03}Z"


def listed(numbers, begin, end, *, key="h", value=None, process="r"):
    return operation(process, "list", key, value, begin, end, [[n, stamp(n)] for n in numbers])


class Lists(unittest.TestCase):
    def found(self, *operations, common_clock=True):
        return "\n".join(judge(list(operations), common_clock))

    def test_a_correct_history_has_no_violation(self):
        history = [append(1, 0, 1), append(2, 1, 9, outcome=INFO), append(3, 2, 3), append(4, 3, 4, outcome=FAIL)]
        history += [listed([], 0.1, 0.2), listed([1], 1.5, 2), listed([1, 2, 3], 5, 6), listed([1, 2, 3], 7, 8, value="last")]
        self.assertEqual(self.found(*history), "")

    def test_a_lost_append(self):
        history = [append(1, 0, 1), append(2, 1, 2), listed([1], 5, 6, value="last")]
        self.assertIn("lost acknowledged appends [2]", self.found(*history))

    def test_a_lost_append_in_the_middle(self):
        history = [append(1, 0, 1), append(2, 1, 2), listed([1], 3, 4), listed([2], 5, 6, value="last")]
        self.assertIn("a later element, but not [1]", self.found(*history))

    def test_an_append_without_a_last_read(self):
        self.assertIn("no read after the faults", self.found(append(1, 0, 1), listed([1], 2, 3)))

    def test_a_stale_read(self):
        history = [append(1, 0, 1), append(2, 1, 2), listed([1], 3, 4), listed([1, 2], 5, 6, value="last")]
        self.assertIn("stale", self.found(*history))
        # Without a common clock another session may be behind, but not the writer's own.
        self.assertEqual(self.found(*history, common_clock=False), "")
        history[2].process = "w"
        self.assertIn("stale", self.found(*history, common_clock=False))

    def test_a_read_that_goes_back(self):
        history = [append(1, 0, 1), append(2, 1, 9), listed([1, 2], 3, 4), listed([1], 5, 6), listed([1, 2], 10, 11, value="last")]
        self.assertIn("stale", self.found(*history, common_clock=False))

    def test_an_append_with_a_version_before_what_its_client_has_seen(self):
        history = [append(2, 0, 1), append(1, 2, 3), listed([1, 2], 5, 6, value="last")]
        self.assertIn("stale", self.found(*history))

    def test_a_duplicate(self):
        self.assertIn("duplicate", self.found(append(1, 0, 1), listed([1, 1], 2, 3, value="last")))

    def test_an_element_that_nobody_appended(self):
        self.assertIn("that nobody appended", self.found(append(1, 0, 1), listed([1, 7], 2, 3, value="last")))

    def test_an_element_of_a_refused_append(self):
        self.assertIn("refused", self.found(append(1, 0, 1, outcome=FAIL), listed([1], 2, 3, value="last")))

    def test_an_element_before_its_append(self):
        self.assertIn("before its append", self.found(listed([1], 0, 1), append(1, 2, 3), listed([1], 4, 5, value="last")))

    def test_an_element_with_another_version(self):
        later = operation("r", "list", "h", "last", 4, 5, [[1, stamp(9)]])
        self.assertIn("changed its version", self.found(append(1, 0, 1), listed([1], 2, 3), later))

    def test_half_of_a_batch(self):
        history = [append(1, 0, 1, key="a b", outcome=INFO), listed([1], 5, 6, key="a", value="last"), listed([], 5, 6, key="b", value="last")]
        self.assertIn("half of a batch", self.found(*history))

    def test_half_of_a_batch_as_of_a_version(self):
        history = [append(1, 0, 1, key="a b"), operation("r", "lists-as-of", "a b", stamp(1), 2, 3, [[[1, stamp(1)]], []])]
        history += [listed([1], 5, 6, key=key, value="last") for key in "ab"]
        self.assertIn("half of a batch, as of one version", self.found(*history))

    def test_a_read_as_of_a_version_that_is_not_repeatable(self):
        history = [append(1, 0, 1), listed([1], 5, 6, value="last")]
        history += [operation("r", "lists-as-of", "h", stamp(0), 2, 3, [[]]), operation("r", "lists-as-of", "h", stamp(0), 3, 4, [[[1, stamp(1)]]])]
        self.assertIn("not repeatable", self.found(*history))


class Registers(unittest.TestCase):
    def found(self, *operations, common_clock=True):
        return "\n".join(judge(list(operations), common_clock))

    def test_a_lost_write(self):
        history = [operation("w", "write", "x", 1, 0, 1), operation("r", "read", "x", None, 2, 3, None)]
        self.assertIn("value 1 was current between two reads of None", self.found(*history))

    def test_a_value_that_nobody_wrote(self):
        self.assertIn("nobody wrote", self.found(operation("r", "read", "x", None, 2, 3, 7)))

    def test_half_of_a_batch(self):
        history = [operation("w", "write", "x y", 1, 0, 1), operation("r", "read", "x y", None, 2, 3, [1, None])]
        self.assertIn("half of a batch", self.found(*history))

    def test_a_session_that_goes_back(self):
        history = [operation("w", "write", "x", n, n, n + 0.5, version=stamp(n)) for n in (1, 2)]
        history += [operation("r", "read", "x", None, 4, 5, 2), operation("r", "read", "x", None, 6, 7, 1)]
        self.assertIn("stale", self.found(*history, common_clock=False))
        history[3].process = "other"
        self.assertEqual(self.found(*history, common_clock=False), "")

    def test_random_histories_against_all_orders(self):
        draw = random.Random(1)
        verdicts = [0, 0]
        for _ in range(3000):
            history = []
            for number in range(draw.randint(1, 5)):
                begin = draw.randint(0, 8)
                end = begin + draw.randint(1, 4)
                if draw.random() < 0.5:
                    outcome = draw.choice([OK, OK, INFO])
                    history.append(operation("w", "write", "x", number, begin, end, outcome=outcome))
                else:
                    written = [o.value for o in history if o.f == "write"]
                    history.append(operation("r", "read", "x", None, begin, end, draw.choice([None, *written])))
            # Equal times are in no order: requests come before responses.
            for o in history:
                o.begin, o.end = o.begin * 2, o.end * 2 + 1
            expected = brute_force(history)
            writes = [o for o in history if o.f == "write"]
            got = not linearizable("x", writes, [(o, o.result) for o in history if o.f == "read"])
            self.assertEqual(got, expected, "\n".join(o.text() for o in history))
            verdicts[expected] += 1
        self.assertTrue(min(verdicts) > 300, verdicts)


def brute_force(history):
    """Whether any order of the operations, with any set of the unknown ones, is one of a register."""
    certain = [o for o in history if o.outcome == OK]
    unknown = [o for o in history if o.outcome == INFO]
    for count in range(len(unknown) + 1):
        for chosen in itertools.combinations(unknown, count):
            for order in itertools.permutations([*certain, *chosen]):
                if any(later.end < earlier.begin for earlier, later in itertools.combinations(order, 2)):
                    continue
                value, right = None, True
                for o in order:
                    if o.f == "write":
                        value = o.value
                    else:
                        right = right and o.result == value
                if right:
                    return True
    return False


class Names(unittest.TestCase):
    def found(self, *operations):
        return "\n".join(judge(list(operations), True))

    def test_a_name_created_twice(self):
        history = [operation("a", "claim", "n", "a1", 0, 1), operation("b", "claim", "n", "b1", 2, 3)]
        history.append(operation("r", "holder", "n", "last", 5, 6, "a1"))
        self.assertIn("created twice", self.found(*history))

    def test_a_name_that_another_client_has(self):
        history = [operation("a", "claim", "n", "a1", 0, 1), operation("b", "claim", "n", "b1", 2, 3, outcome=INFO)]
        self.assertIn("acknowledged to a1, found with b1", self.found(*history, operation("r", "holder", "n", "last", 5, 6, "b1")))
        self.assertEqual(self.found(*history, operation("r", "holder", "n", "last", 5, 6, "a1")), "")

    def test_a_refusal_without_a_reason(self):
        self.assertIn("nobody else created it", self.found(operation("a", "claim", "n", "a1", 0, 1, outcome=FAIL)))

    def test_a_name_after_its_rename(self):
        history = [operation("a", "name", "n", ["create", "a"], 0, 1), operation("a", "name", "n", ["rename", "b"], 2, 3)]
        self.assertEqual(self.found(*history, operation("a", "name", "n", ["look", "b"], 4, 5, True)), "")
        self.assertIn("a is found", self.found(*history, operation("a", "name", "n", ["look", "a"], 4, 5, True)))
        self.assertIn("b is not found", self.found(*history, operation("a", "name", "n", ["look", "b"], 4, 5, False)))
        history.append(operation("a", "name", "n", ["delete", None], 6, 7))
        self.assertIn("b is found", self.found(*history, operation("a", "name", "n", ["look", "b"], 8, 9, True)))

    def test_a_rename_of_unknown_outcome_may_have_either(self):
        history = [operation("a", "name", "n", ["create", "a"], 0, 1), operation("a", "name", "n", ["rename", "b"], 2, 3, outcome=INFO)]
        for there in (True, False):
            self.assertEqual(self.found(*history, operation("a", "name", "n", ["look", "b"], 4, 5, there)), "")

    def test_an_object_without_the_last_mark(self):
        history = [operation("w", "mark", "marks", 5, 0, 1), operation("r", "marked", "marks", 2, 2, 3, [5, 0])]
        self.assertIn("wrong [0]", self.found(*history))
        history[1].result = [5]
        self.assertIn("expected 2 objects", self.found(*history))


if __name__ == "__main__":
    unittest.main()
