"""The process: listening sockets, open files, threads, kernels, health, reloading.

Takes settings, gives the parts that the server starts and stops.
Open ``health.py`` first.
"""
