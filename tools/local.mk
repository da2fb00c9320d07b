# Sources of tools/ are listed here.
