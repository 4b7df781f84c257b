"""Training by gradient steps: engines, the thread team, the loader of rows, and runs of epochs."""
