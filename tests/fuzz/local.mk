# Tests of tests/fuzz/ are listed here.
