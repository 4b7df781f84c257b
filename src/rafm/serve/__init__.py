"""A server: a supervisor that listens, and worker processes that answer.

The supervisor binds the port and starts the workers, which share its socket: a connection that waits for one worker can
be taken by another. Each worker loads the model itself, answers when it is ready, and looks for a replaced file.
"""
