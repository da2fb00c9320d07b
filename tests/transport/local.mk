# Tests of tests/transport/ are listed here.
