"""Models for use without rafm: as a C program, a Python program or an ONNX graph."""
