# Sources of transports/self/ are listed here.
