"""Starts the servers to compare, loads them in turns, and writes down what each request cost."""
