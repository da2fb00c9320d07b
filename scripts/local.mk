EXTRA_DIST += \
	.ci/run \
	scripts/lib.sh \
	scripts/quickstart \
	scripts/test
