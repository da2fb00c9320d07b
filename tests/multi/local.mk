# Tests of tests/multi/ are listed here.
