# Sources of launcher/ are listed here.
