# Sources of transports/shm/ are listed here.
