"""Why a score is what it is: exact terms, Shapley values, importance of columns."""
