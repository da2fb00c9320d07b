#!/bin/sh
# Generate configure and the Makefile templates from a repository checkout.
set -eu
cd "$(dirname "$0")"
command -v autoreconf >/dev/null || {
    echo "autogen.sh: autoreconf not found: install the Debian packages autoconf automake libtool" >&2
    exit 1
}
exec autoreconf --install --force
