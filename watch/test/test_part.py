# SPDX-License-Identifier: MIT
"""Long tests are divided, so that their parts run at the same time: CUEVENT_TEST_PART is "2/3" for the second
of three. Without it, all of a test runs."""
import os
import sys
import unittest

PART, PARTS = (int(number) for number in os.environ.get("CUEVENT_TEST_PART", "1/1").split("/"))
assert 1 <= PART <= PARTS


def of_this_part(items):
    return list(items)[PART - 1::PARTS]


def run_tests(slow=()):
    """As unittest.main. The methods that `slow` names take longest, and are divided first."""
    class Loader(unittest.TestLoader):
        def loadTestsFromModule(self, *arguments, **more):
            def each(suite):
                return [test for part in suite
                        for test in (each(part) if isinstance(part, unittest.TestSuite) else [part])]

            def order(test):
                name = test.id().rpartition(".")[2]
                return (slow.index(name) if name in slow else len(slow), test.id())

            tests = each(super().loadTestsFromModule(*arguments, **more))
            names = {test.id().rpartition(".")[2] for test in tests}
            assert set(slow) <= names, set(slow) - names
            return self.suiteClass(of_this_part(sorted(tests, key=order)))

    unittest.main(argv=sys.argv[:1], testLoader=Loader())
