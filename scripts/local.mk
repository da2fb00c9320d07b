# Sources of scripts/ are listed here.
