EXTRA_DIST += tests/verbs/run tests/verbs/vm
