# Sources of bench/ are listed here.
