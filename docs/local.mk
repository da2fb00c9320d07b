# Sources of docs/ are listed here.
