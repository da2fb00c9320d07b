# HC_DEPENDENCY(VARIABLE, PKG-CONFIG-NAME, MINIMUM, DEBIAN-PACKAGE)
# Find a library by pkg-config, optionally below --with-NAME=PREFIX, and stop
# with the Debian package to install when it is missing or too old.
AC_DEFUN([HC_DEPENDENCY], [
  AC_ARG_WITH([$2], [AS_HELP_STRING([--with-$2=PREFIX], [prefix where $2 is installed])], [], [with_$2=])
  hc_saved_pkg_config_path="$PKG_CONFIG_PATH"
  AS_CASE(["$with_$2"],
    [no], [AC_MSG_ERROR([$2 is required: --without-$2 is not possible])],
    [yes|""], [],
    [PKG_CONFIG_PATH="$with_$2/lib/pkgconfig:$with_$2/lib64/pkgconfig:$PKG_CONFIG_PATH"; export PKG_CONFIG_PATH])
  PKG_CHECK_MODULES([$1], [$2 >= $3], [],
    [AC_MSG_ERROR([$2 >= $3 not found: install the Debian package $4, or give --with-$2=PREFIX ($$1[]_PKG_ERRORS)])])
  PKG_CONFIG_PATH="$hc_saved_pkg_config_path"
])
