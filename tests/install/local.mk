# What make install leaves works: files, pkg-config, the examples, training, its answers to bad input.
dist_check_SCRIPTS += tests/install/installed.sh
TESTS += tests/install/installed.sh
