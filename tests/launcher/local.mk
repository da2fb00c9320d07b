# Tests of tests/launcher/ are listed here.
