# Sources of examples/ are listed here.
