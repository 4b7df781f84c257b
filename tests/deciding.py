"""What default training decides for rows, asked without training."""

from rafm.rows.source import InMemory
from rafm.rows.stats import count_rows
from rafm.train.decision import Facts, decide
from rafm.train.resources import Resources


def decision_for(rows, options, fields=None, is_judged=True, **resources):
    """Return the decision for rows, or a source of them; resources: such as `memory`."""
    source = rows if hasattr(rows, "block") else InMemory(rows, fields)
    found = count_rows(source.block(number) for number in range(source.n_blocks))
    n_fields = None if source.fields is None else len(source.fields.names)
    facts = Facts(found, n_fields, source.in_memory, is_judged)
    return decide(facts, options, Resources(seconds=options.max_seconds, **resources))
