"""The paper's experiments, public data sets, and questions about default settings; run from a checkout with `-m`."""
