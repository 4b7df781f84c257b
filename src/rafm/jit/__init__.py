"""How code is compiled: the disk cache, vector instructions, and a barrier for threads inside compiled code."""
