# The examples use <hcomm.h> alone. They are built here, and installed as source with their data.
noinst_PROGRAMS += \
	examples/device \
	examples/hello \
	examples/pingpong \
	examples/prefetch \
	examples/streams \
	examples/topology \
	examples/train_digits

examples_device_SOURCES = examples/device.c
examples_device_LDADD = libhcommrt.la

examples_hello_SOURCES = examples/hello.c
examples_hello_LDADD = libhcommrt.la

examples_pingpong_SOURCES = examples/pingpong.c
examples_pingpong_LDADD = libhcommrt.la

examples_streams_SOURCES = examples/streams.c
examples_streams_LDADD = libhcommrt.la

examples_prefetch_SOURCES = examples/prefetch.c
examples_prefetch_LDADD = libhcommrt.la

examples_topology_SOURCES = examples/topology.c
examples_topology_LDADD = libhcommrt.la

examples_train_digits_SOURCES = \
	examples/digits.c \
	examples/digits.h \
	examples/ring_allreduce.c \
	examples/ring_allreduce.h \
	examples/train_digits.c
examples_train_digits_LDADD = libhcommrt.la -lm

examplesdir = $(pkgdatadir)/examples
examples_DATA = \
	examples/README.md \
	$(examples_device_SOURCES) \
	$(examples_hello_SOURCES) \
	$(examples_pingpong_SOURCES) \
	$(examples_prefetch_SOURCES) \
	$(examples_streams_SOURCES) \
	$(examples_topology_SOURCES) \
	$(examples_train_digits_SOURCES)

digitsdir = $(examplesdir)/data
dist_digits_DATA = \
	examples/data/README.md \
	examples/data/digits.csv

EXTRA_DIST += examples/README.md
