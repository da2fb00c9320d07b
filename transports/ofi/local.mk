# Sources of transports/ofi/ are listed here.
