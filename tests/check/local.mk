# Tests of tests/check/ are listed here.
