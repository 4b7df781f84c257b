"""The paper's equations, slow and obvious, in float64. Nothing here shares code with the package.

A model is a dict: family, ranks of its blocks, levels k (one per feature), bias, w, and v[p][i], the vector v_i^(p+1)
(None if inactive; for DiFacto the coordinates that level p + 1 adds). MRMA has mixture[i][p] too. With field weights
there are fields, the field of each feature, and t, one number per field. A field-aware model has fields without t; its
blocks are one per field, and v[f][i] is the vector of feature i for partners of field f.
A row is a pair of arrays: feature ids and values. A rule is a dict of what the steps depend on.
"""

import itertools

import numpy as np

SLOW, SLOWER, TINY = (float(np.float32(value)) for value in (0.9, 0.999, 1e-8))  # Adam's, as the kernels have them


FIELD_RATE = float(np.float32(0.05))  # AdaGrad's rate of field weights


def random_model(rng, ranks, levels, spread=0.5, family="rafm", n_fields=0):
    """Return a model with random numbers for the given block ranks and levels."""
    n = len(levels)
    fields = {"fields": rng.integers(0, n_fields, n)} if n_fields else {}
    if n_fields and family != "ffm":
        fields["t"] = rng.uniform(0, 1, n_fields)
    vectors = [
        [rng.normal(0, spread, rank) if levels[i] > p else None for i in range(n)] for p, rank in enumerate(ranks)
    ]
    return {
        "family": family,
        "ranks": ranks,
        "levels": list(levels),
        "bias": rng.normal(),
        "w": rng.normal(0, spread, n),
        "v": vectors,
        "mixture": rng.uniform(0.5, 2, (n, len(ranks))),
        **fields,
    }


def linear(model, row):
    """Return bias + w.x."""
    return model["bias"] + sum(model["w"][i] * x for i, x in zip(*row))


def field_weight(model, i):
    """Return t of the field of a feature, 0 without field weights."""
    return model["t"][model["fields"][i]] if "t" in model else 0.0


def pair_weight(model, i, j):
    """Return what a pair of features counts: 1 - t_a t_b."""
    return 1 - field_weight(model, i) * field_weight(model, j)


def pairs(row):
    """Yield each pair of the row's features once, with the product of their values."""
    ids, values = row
    for a in range(len(ids)):
        for b in range(a):
            yield ids[a], ids[b], values[a] * values[b]


def rafm_score(model, row, lower, upper):
    """Return B_{l,k} by its definition: a pair interacts at level max(l, min(k, k_i, k_j)).

    lower > 1 needs vectors of that level for all features.
    """
    total = linear(model, row)
    for i, j, xx in pairs(row):
        level = max(lower, min(upper, model["levels"][i], model["levels"][j]))
        if min(model["levels"][i], model["levels"][j]) > 0:  # level 0: a weight and no vector
            total += pair_weight(model, i, j) * (model["v"][level - 1][i] @ model["v"][level - 1][j]) * xx
    return total


def a_term(model, row, l, k):
    """Return A_{l,k}: the pairs of F_k with vectors of level l, one by one."""
    levels = model["levels"]
    return sum(
        pair_weight(model, i, j) * (model["v"][l - 1][i] @ model["v"][l - 1][j]) * xx
        for i, j, xx in pairs(row)
        if levels[i] >= k and levels[j] >= k
    )


def a_term_in_linear_time(model, row, l, k):
    """Return A_{l,k} as 1/2 (|sum v x|^2 - |sum t v x|^2 - sum (1 - t^2) |v x|^2) over F_k; t is 0 without fields."""
    members = [(model["v"][l - 1][i] * x, field_weight(model, i)) for i, x in zip(*row) if model["levels"][i] >= k]
    total = sum((z for z, _ in members), np.zeros(model["ranks"][l - 1]))
    weighted = sum((t * z for z, t in members), np.zeros(model["ranks"][l - 1]))
    return 0.5 * (total @ total - weighted @ weighted - sum((1 - t**2) * z @ z for z, t in members))


def difacto_score(model, row):
    """Return the score when a pair uses the common prefix of two vectors of lengths D_{k_i} and D_{k_j}.

    model["v"][p][i] holds the coordinates that level p + 1 adds.
    """

    def whole(i):
        parts = [model["v"][p][i] for p in range(model["levels"][i])]
        return np.concatenate(parts) if parts else np.zeros(0)

    total = linear(model, row)
    for i, j, xx in pairs(row):
        short = min(whole(i).size, whole(j).size)
        total += pair_weight(model, i, j) * (whole(i)[:short] @ whole(j)[:short]) * xx
    return total


def pair_product(model, i, j):
    """Return what a pair adds to the score of a row in which both values are 1."""
    without = {**model, "bias": 0.0, "w": np.zeros(len(model["levels"]))}
    return score(without, ([i, j], [1.0, 1.0]))


def account(model, row, counts, n_fields):
    """Return what a head takes in: score, pairs of each two fields, linear terms and counts of each field."""
    fields, plain = model["fields"], {name: part for name, part in model.items() if name != "t"}
    between, own, known = np.zeros((n_fields, n_fields)), np.zeros(n_fields), np.zeros(n_fields)
    for i, j, xx in pairs(row):
        a, b = fields[i], fields[j]
        if a != b:
            between[a, b] += pair_product(plain, i, j) * xx
    for i, x in zip(*row):
        own[fields[i]] += model["w"][i] * x
        known[fields[i]] += np.log(1 + counts[i])
    between = between + between.T
    each = [between[a, b] for a in range(n_fields) for b in range(a + 1, n_fields)]
    return np.array([score(model, row), *(each if n_fields <= 20 else between.sum(axis=1)), *own, *known])


def network_output(network, account):
    """Return what a head adds to the score."""
    total = float(network["output_bias"][0])
    taken = [min(max((a - m) * s, -6.0), 6.0) for a, m, s in zip(account, network["means"], network["scales"])]
    for u, output in enumerate(network["output"]):
        unit = network["hidden_bias"][u] + sum(t * network["hidden"][k][u] for k, t in enumerate(taken))
        total += max(unit, 0.0) * output
    return total


def pair_counts(rows, weights, n_features):
    """Return how often each pair meets in rows, by weights and squared values."""
    met = np.zeros((n_features, n_features))
    for row, weight in zip(rows, weights):
        for i, j, xx in pairs(row):
            met[i, j] += weight * xx**2
            met[j, i] += weight * xx**2
    return met


def promote(model, levels, fresh, counts, met, rule):
    """Return a RaFM whose features have risen to levels: each new vector solves its equations, one row per member.

    fresh[p][i]: vectors to start from. rule: others, ridge and least, as in the docstring of promotion.py.
    """
    old, n = model["levels"], len(levels)
    after = {**model, "levels": list(levels), "v": [list(block) for block in model["v"]]}
    for p, block in enumerate(after["v"]):
        known = [j for j in range(n) if old[j] > p]
        for i in (i for i in range(n) if old[i] <= p < levels[i]):
            block[i] = np.array(fresh[p][i])
            if old[i]:
                shares = {j: rule["others"] * counts[j] / sum(counts[k] for k in known) for j in known}
                for j in [*known, *(j for j in range(i) if old[j] <= p < levels[j])]:
                    shares[j] = shares.get(j, 0) + met[i, j]
                vectors = np.array([block[j] for j in shares]).reshape(-1, block[i].size)
                wanted = np.array([pair_product(model, i, j) for j in shares])
                own, weights = model["v"][old[i] - 1][i], np.array(list(shares.values()))
                middle = np.concatenate([own, block[i][own.size :]])
                size = max((weights @ vectors**2).mean(), weights @ wanted**2 / (own @ own), 1e-30)
                block[i] = _kept(vectors, wanted, weights, middle, size, rule)
    return after


def _kept(vectors, wanted, weights, middle, size, rule):
    """Solve for the vector twice: nearly freely, then drawn to the middle by the share that this leaves unexplained."""
    root = np.sqrt(weights)

    def solve(ridge):
        pull = np.sqrt(ridge * size) * np.eye(middle.size)
        equations = np.concatenate([root[:, None] * vectors, pull])
        return np.linalg.lstsq(equations, np.concatenate([root * wanted, pull @ middle]), rcond=None)[0]

    missed = weights @ (vectors @ solve(rule["least"]) - wanted) ** 2 / max(weights @ wanted**2, 1e-30)
    return solve(rule["least"] + rule["ridge"] * min(missed, 1.0))


def pair_error(before, after, met):
    """Return sqrt(sum w (now - then)^2 / sum w then^2) over pairs whose common level is higher now; None if 0 / 0."""
    missed = total = 0.0
    for i in range(len(met)):
        for j in range(i):
            if min(after["levels"][i], after["levels"][j]) > min(before["levels"][i], before["levels"][j]):
                then, now = pair_product(before, i, j), pair_product(after, i, j)
                missed, total = missed + met[i, j] * (now - then) ** 2, total + met[i, j] * then**2
    return np.sqrt(missed / total) if total else None


def mrma_score(model, row):
    """Return bias, weights and the mixture over ranks of u.v, weighted by a_i^k b_j^k."""
    (i, j), (x, z) = row
    mix = model["mixture"]
    weights = [mix[i][p] * mix[j][p] for p in range(len(model["ranks"]))]
    products = [model["v"][p][i] @ model["v"][p][j] * x * z for p in range(len(model["ranks"]))]
    return linear(model, row) + np.dot(weights, products) / np.sum(weights)


def ffm_score(model, row):
    """Return bias, weights and the pairs: each feature by its vector for the field of the other."""
    field, v = model["fields"], model["v"]
    return linear(model, row) + sum(v[field[j]][i] @ v[field[i]][j] * xx for i, j, xx in pairs(row))


def partner_fields(model, row, i):
    """Return the fields of the other features of a row, each once."""
    return {model["fields"][j] for j in row[0] if j != i}


def ffm_pulls(model, row, label, weight, rule):
    """Yield what `pulls` yields, for the vectors of a field-aware model that have a partner in the row."""
    field, v, l2 = model["fields"], model["v"], np.ravel(rule["l2"])[0]
    g = weight * slope(rule["kind"], score(model, row), label)
    for i, x in zip(*row):
        yield None, i, g * x, weight * rule["l2_weights"], None
        for f in partner_fields(model, row, i):
            S = sum(v[field[i]][j] * z for j, z in zip(*row) if field[j] == f)  # with i itself, if it is of that field
            yield f, i, g * x * S, weight * l2 - (g * x * x if field[i] == f else 0), None


def score(model, row):
    """Return the score of a row by the definition of the model's family."""
    if model["family"] == "ffm":
        return ffm_score(model, row)
    if model["family"] == "difacto":
        return difacto_score(model, row)
    if model["family"] == "mrma":
        return mrma_score(model, row) if len(row[0]) == 2 else linear(model, row)
    return rafm_score(model, row, 1, len(model["ranks"]))


def score_size(model, row):
    """Return the sum of the absolute values of all products that add up to a score; rounding errors are relative to it.

    The square of no value is among them, so one large value takes no digits from the rest.
    """
    total = abs(model["bias"]) + sum(abs(model["w"][i] * x) for i, x in zip(*row))
    for p in range(len(model["ranks"])):
        before = np.zeros(model["ranks"][p])
        for z in (abs(model["v"][p][i] * x) for i, x in zip(*row) if model["levels"][i] > p):
            total += before @ z
            before = before + z
    return total


def factors_touched(ranks, levels, ids):
    """Return sum_k D_k n(F_k), with n(F_k) the number of the row's features of level k or more."""
    return sum(rank * sum(levels[i] >= k for i in ids) for k, rank in enumerate(ranks, start=1))


def sigmoid(score):
    return 1 / (1 + np.exp(-score))


def predicted(kind, score):
    """Return the prediction that belongs to a score."""
    return {"logistic": sigmoid, "poisson": np.exp}.get(kind, float)(score)


def loss(kind, score, label):
    """Return the log loss, half the squared error, half the Poisson deviance, or Huber's loss of delta 1."""
    if kind == "squared":
        return 0.5 * (score - label) ** 2
    if kind == "huber":
        error = abs(score - label)
        return 0.5 * error**2 if error <= 1 else error - 0.5
    if kind == "poisson":
        return np.exp(score) - label + (label * np.log(label / np.exp(score)) if label else 0.0)
    assert kind == "logistic", kind
    return np.logaddexp(0, score) - label * score  # -y log sigma - (1 - y) log(1 - sigma), also where sigma rounds to 1


def slope(kind, score, target):
    """Return the derivative of the loss in the score: prediction less label, for Huber at most 1 either way."""
    error = predicted(kind, score) - target
    return np.clip(error, -1, 1) if kind == "huber" else error


def target_loss(kind, score, target):
    """Return L(B_{1,p}, B_{1,p+1}): the loss with the prediction of another score as the label."""
    return loss(kind, score, predicted(kind, target))


def numbers(model):
    """Yield (name, array) of every trained number as views that can be nudged."""
    yield ("w",), model["w"]
    if "t" in model:
        yield ("t",), model["t"]
    for p, block in enumerate(model["v"]):
        for i, vector in enumerate(block):
            if vector is not None:
                yield ("v", p, i), vector


def finite_difference(function, array, at, step=1e-6):
    """Return the central difference of function() in one number."""
    old = array[at]
    array[at] = old + step
    up = function()
    array[at] = old - step
    down = function()
    array[at] = old
    return (up - down) / (2 * step)


def derivative(function, array):
    """Return the central differences of function() in every number of an array."""
    return np.array([finite_difference(function, array, at) for at in range(array.size)])


def shares(model, row):
    """Return what each block counts in a row: 1, or by MRMA's mixture weights of the row's features."""
    if model["family"] != "mrma":
        return np.ones(len(model["ranks"]))
    products = np.prod([model["mixture"][i] for i in row[0]], axis=0)
    return products / products.sum()


def penalty(model, row, l2, l2_weights):
    """Return the L2 penalty that one row adds: each occurrence of a feature counts. l2 may be one per block."""
    total, strength = 0.0, np.broadcast_to(l2, len(model["ranks"])) * shares(model, row)
    for i in row[0]:
        total += 0.5 * l2_weights * model["w"][i] ** 2
        if model["family"] == "ffm":
            total += sum(0.5 * strength[f] * (model["v"][f][i] ** 2).sum() for f in partner_fields(model, row, i))
            continue
        total += sum(0.5 * strength[p] * (model["v"][p][i] ** 2).sum() for p in range(model["levels"][i]))
    return total


def gradient(model, row, label, rule, weight=1.0):
    """Return {name: gradient} of every number by finite differences, times the weight of the row.

    Free numbers follow L(score, y). A dependent v_i^(p) of a RaFM, k_i > p, follows L(B_{1,p}, B_{1,p+1}) with
    B_{1,p+1} held fixed, and by the joint rule L(score, y) too.
    """

    def outer():
        return loss(rule["kind"], score(model, row), label)

    def costs():
        return penalty(model, row, rule["l2"], rule["l2_weights"])

    found = {("bias",): weight * slope(rule["kind"], score(model, row), label)}
    for name, array in numbers(model):
        change = derivative(costs, array)
        dependent = model["family"] == "rafm" and name[0] == "v" and model["levels"][name[2]] > name[1] + 1
        if dependent:
            change += rule["dependent_weight"] * _inner_derivative(model, row, rule["kind"], name[1] + 1, array)
        if rule["joint"] or not dependent:
            change += derivative(outer, array)
        found[name] = weight * change
    return found


def _inner_derivative(model, row, kind, level, array):
    """Return the derivative of L(B_{1,p}, B_{1,p+1}), the latter held fixed."""
    target = rafm_score(model, row, 1, level + 1)
    return derivative(lambda: target_loss(kind, rafm_score(model, row, 1, level), target), array)


def mixture_gradient(model, row, label, kind):
    """Return the gradient of L(score, y) in MRMA's mixture weights, as an array of their shape."""
    flat = model["mixture"].reshape(-1)  # a view
    return derivative(lambda: loss(kind, score(model, row), label), flat).reshape(model["mixture"].shape)


def fresh_states(model, rule=None):
    """Return an optimiser's states at their start: a pair per number or vector, by ("bias",), ("w", i) or ("v", p, i).

    AdaGrad's is 1 (and nothing); FTRL's is 1 and the z that gives the number as it is; Adam's moments are 0.
    """
    kind = "adagrad" if rule is None else rule["optimizer"]
    states = {"batches": 0}
    for name, value, l1 in single_numbers(model, rule):
        first = 0.0 if kind == "adam" else 1.0
        states[name] = [first * np.ones(np.shape(value)) if kind == "adam" else first, 0 * value]
        if kind == "ftrl":
            size = np.linalg.norm(value)
            states[name][1] = -value / rule["learning_rate"] * (1 + rule["learning_rate"] * l1 / max(size, 1e-30))
    return states


def single_numbers(model, rule=None):
    """Yield name, value and FTRL's L1 penalty of the bias, each weight and each vector."""
    l1, l1_weights = (0, 0) if rule is None else (rule.get("l1", 0), rule.get("l1_weights", 0))
    yield ("bias",), model["bias"], 0
    for i, weight in enumerate(model["w"]):
        yield ("w", i), weight, l1_weights
    for p, block in enumerate(model["v"]):
        for i, vector in enumerate(block):
            if vector is not None:
                yield ("v", p, i), vector, l1 * np.sqrt(len(vector))


def pair_scores(model, pair, level=None):
    """Return the difference of the scores of two rows, of all levels or up to one, and its negative."""
    of = score if level is None else lambda model, row: rafm_score(model, row, 1, level)
    difference = of(model, pair[0]) - of(model, pair[1])
    return difference, -difference


def pair_gradient(model, pair, rule, weight=1.0):
    """Return {name: gradient} of -log sigma(d) of two rows by finite differences, d the difference of their scores.

    A dependent v_i^(p) of a RaFM follows the loss of d_p with sigma(d_{p+1}) as its label, and by the joint rule the
    other one too.
    """

    def outer():
        return np.logaddexp(0, -pair_scores(model, pair)[0])

    def costs():
        return sum(penalty(model, row, rule["l2"], rule["l2_weights"]) for row in pair)

    def inner(level):
        target = sigmoid(pair_scores(model, pair, level + 1)[0])
        return lambda: loss("logistic", pair_scores(model, pair, level)[0], target)

    found = {("bias",): 0.0}
    for name, array in numbers(model):
        change = derivative(costs, array)
        dependent = model["family"] == "rafm" and name[0] == "v" and model["levels"][name[2]] > name[1] + 1
        if dependent:
            change += rule["dependent_weight"] * derivative(inner(name[1] + 1), array)
        if rule["joint"] or not dependent:
            change += derivative(outer, array)
        found[name] = weight * change
    return found


def pulls(model, row, label, weight, rule, other=None):
    """Yield (block or None for the weight, feature, c, d, h) of a row: the gradient is c + d * (the number as it is).

    With S over all features that have the block and T over those that have more: a free vector has
    g x (S - v x), a dependent one g_p x (S - v x), plus g x (S - T) by the joint rule; and the penalty adds l2 v.
    With field weights, S' and T' are the same sums of t v x: a free vector has g x (S - t S' - (1 - t^2) v x), and so
    on. h is the pair that makes the gradient of t: -(h[0] . v + h[1] v . v), with the vector as it then is.
    With another row, the two train as a pair: scores are differences to those of the other row.
    """
    if model["family"] == "ffm":
        yield from ffm_pulls(model, row, label, weight, rule)
        return

    def scored(level=None):
        if other is not None:
            return pair_scores(model, (row, other), level)[0]
        return score(model, row) if level is None else rafm_score(model, row, 1, level)

    nested, levels, l2 = model["family"] == "rafm", model["levels"], np.broadcast_to(rule["l2"], len(model["ranks"]))
    g = weight * slope(rule["kind"], scored(), label)
    for i, x in zip(*row):
        yield None, i, g * x, weight * rule["l2_weights"], None
        t = field_weight(model, i)
        for p in range(levels[i]):
            S, S1 = sums_of(model, row, p, p + 1)
            if not nested or levels[i] == p + 1:
                change = weight * l2[p] - g * x * x * (1 - t**2)
                yield p, i, g * x * (S - t * S1), change, (g * x * S1, -g * x * x * t)
                continue
            T, T1 = sums_of(model, row, p, p + 2)
            target = predicted(rule["kind"], scored(p + 2))
            inner = weight * rule["dependent_weight"] * slope(rule["kind"], scored(p + 1), target)
            joint = g * x * ((S - T) - t * (S1 - T1)) if rule["joint"] else 0
            change = weight * l2[p] - inner * x * x * (1 - t**2)
            yield p, i, inner * x * (S - t * S1) + joint, change, (g * x * (S1 - T1), 0)


def sums_of(model, row, p, least):
    """Return the sums of v x and of t v x with block p over the row's features of at least a level."""
    members = [(model["v"][p][j] * z, field_weight(model, j)) for j, z in zip(*row) if model["levels"][j] >= least]
    return sum(z for z, _ in members), sum(t * z for z, t in members)


def stepped(rule, states, name, value, gradient, l1=0.0, square=None):
    """Return a number or vector after a step along its gradient; the states change in place.

    square: what to add to the state in place of the gradient's mean square.
    """
    rate, pair = rule["learning_rate"], states[name]
    if rule["optimizer"] == "sgd":
        return value - rate * gradient
    if rule["optimizer"] == "adam":
        pair[0] = SLOWER * pair[0] + (1 - SLOWER) * np.square(gradient)
        pair[1] = SLOW * pair[1] + (1 - SLOW) * gradient
        age = states["batches"] + 1
        mean, square = pair[1] / (1 - SLOW**age), pair[0] / (1 - SLOWER**age)
        return value - rate * mean / (np.sqrt(square) + TINY / np.sqrt(1 - SLOWER**age))
    before = pair[0]
    pair[0] = before + (np.mean(np.square(gradient)) if square is None else square)
    if rule["optimizer"] == "adagrad":
        return value - rate / np.sqrt(pair[0]) * gradient
    pair[1] = pair[1] + gradient - (np.sqrt(pair[0]) - np.sqrt(before)) / rate * value
    size = np.linalg.norm(pair[1])
    return -rate / np.sqrt(pair[0]) * pair[1] * max(0, 1 - l1 / size) if size else 0 * pair[1]


def move(model, states, p, i, c, d, rule):
    """Step one weight (p is None) or one vector along c + d * itself, in place."""
    name, array = (("w", i), model["w"]) if p is None else (("v", p, i), model["v"][p])
    l1 = rule.get("l1_weights", 0) if p is None else rule.get("l1", 0) * np.sqrt(len(array[i]))
    array[i] = stepped(rule, states, name, array[i], c + d * array[i], l1)


def train_batch(model, states, batch, heads, rule, paired=False):
    """Train on one mini-batch [(row, label, weight), ...] in place; return its loss.

    Rows 2 r and 2 r + 1 of a paired batch are pairs; the loss of each pair counts twice.

    All slopes and sums come from the numbers at the start. Features among the heads step once, by their summed
    gradient; the others at each occurrence, in the order of the rows. The bias steps once, by its summed slope. Field
    weights step once, by the summed gradient of the batch before.
    """
    others = [batch[t ^ 1][0] if paired else None for t in range(len(batch))]
    scores = [
        score(model, row) if other is None else pair_scores(model, (row, other))[0]
        for (row, _, _), other in zip(batch, others)
    ]
    total = sum(weight * loss(rule["kind"], own, label) for own, (_, label, weight) in zip(scores, batch))
    bias = sum(weight * slope(rule["kind"], own, label) for own, (_, label, weight) in zip(scores, batch))
    pulled = [list(pulls(model, *item, rule, other)) for item, other in zip(batch, others)]
    occurred = {i for row, _, weight in batch for i in row[0] if weight > 0}
    summed, fields = {}, np.zeros(len(model.get("t", ())))
    for p, i, c, d, h in (pull for row in pulled for pull in row):
        if h is not None and "t" in model:
            v = model["v"][p][i]
            fields[model["fields"][i]] -= h[0] @ v + h[1] * (v @ v)
        if i in heads:
            old = summed.get((p, i), (0, 0))
            summed[p, i] = (old[0] + c, old[1] + d)
        else:
            move(model, states, p, i, c, d, rule)
    if model["family"] == "ffm":  # heads step all their vectors
        for i, p in itertools.product(heads & occurred, range(len(model["ranks"]))):
            summed.setdefault((p, i), (0, 0))
    for (p, i), (c, d) in summed.items():
        if i in occurred:
            move(model, states, p, i, c, d, rule)
    model["bias"] = stepped(rule, states, ("bias",), model["bias"], bias)
    states["batches"] += 1
    if "t" in model:
        step_fields(model, states, fields)
    return total


def step_fields(model, states, gradient):
    """Step the field weights by AdaGrad along the gradient of the batch before, and keep this one for the next."""
    before, pending = states.get(("t",), (np.ones(len(gradient)), np.zeros(len(gradient))))
    square = before + pending**2
    model["t"] = np.clip(model["t"] - FIELD_RATE / np.sqrt(square) * pending, 0, 1)
    states["t",] = square, gradient


def train_wide_step(model, states, batch, rule, damping):
    """Train on the rows of one wide step in place; return its loss.

    All gradients come from the numbers at the start. Each number or vector steps once by the sum of the gradients of
    its rows, damped by the sum of their mean squares F: with r the usual size of its step, gradient and square are
    multiplied by 1 / (1 + damping r F). Adam is not damped. Field weights step by the summed gradient, at once.
    """
    total = sum(weight * loss(rule["kind"], score(model, row), label) for row, label, weight in batch)
    slopes = [weight * slope(rule["kind"], score(model, row), label) for row, label, weight in batch]
    gradients, fields = {("bias",): slopes}, np.zeros(len(model.get("t", ())))
    for p, i, c, d, h in (pull for row, label, weight in batch for pull in pulls(model, row, label, weight, rule)):
        value = model["w"][i] if p is None else model["v"][p][i]
        gradients.setdefault(("w", i) if p is None else ("v", p, i), []).append(c + d * value)
        if h is not None and "t" in model:
            fields[model["fields"][i]] -= h[0] @ value + h[1] * (value @ value)
    for name, value, l1 in [*single_numbers(model, rule)]:
        if name in gradients:
            put_number(model, name, wide_stepped(rule, states, name, value, np.array(gradients[name]), l1, damping))
    states["batches"] += 1
    if "t" in model:
        states["t",] = states.get(("t",), np.ones(len(fields))) + fields**2
        model["t"] = np.clip(model["t"] - FIELD_RATE / np.sqrt(states["t",]) * fields, 0, 1)
    return total


def wide_stepped(rule, states, name, value, gradients, l1, damping):
    """Return a number or vector after a damped step by the sum of its gradients, one per row."""
    if rule["optimizer"] == "adam":
        return stepped(rule, states, name, value, gradients.sum(axis=0), l1)
    fisher = sum(np.mean(np.square(gradient)) for gradient in gradients)
    size = rule["learning_rate"] / (1 if rule["optimizer"] == "sgd" else np.sqrt(states[name][0]))
    share = 1 / (1 + damping * size * fisher)
    return stepped(rule, states, name, value, share * gradients.sum(axis=0), l1, share * fisher)


def put_number(model, name, value):
    """Set the bias, a weight or a vector by its name."""
    if name == ("bias",):
        model["bias"] = value
    elif name[0] == "w":
        model["w"][name[1]] = value
    else:
        model["v"][name[1]][name[2]] = value


def step_mrma_factors(model, states, row, label, weight, rule):
    """Train all but MRMA's mixture weights on one row of two features, in place, from the numbers before the row."""
    before = [list(block) for block in model["v"]]
    g = weight * slope(rule["kind"], score(model, row), label)
    l2 = np.broadcast_to(rule["l2"], len(model["ranks"]))
    for (i, x), (j, z) in zip(zip(*row), list(zip(*row))[::-1]):
        move(model, states, None, i, g * x, weight * rule["l2_weights"], rule)
        for p, share in enumerate(shares(model, row)):
            move(model, states, p, i, g * share * x * z * before[p][j], weight * l2[p] * share, rule)
    model["bias"] = stepped(rule, states, ("bias",), model["bias"], g)


def step_mrma_mixture(model, states, row, label, weight, pull, rule, floor):
    """Train MRMA's mixture weights on one row: a gradient step, then |a - 1| shrinks by the step times the pull."""
    change = weight * mixture_gradient(model, row, label, rule["kind"])
    for i in row[0]:
        for p in range(len(model["ranks"])):
            states[i, p] += change[i, p] ** 2
            step = rule["learning_rate"] / np.sqrt(states[i, p])
            away = model["mixture"][i, p] - step * change[i, p] - 1
            away = np.sign(away) * max(abs(away) - step * weight * pull, 0)
            model["mixture"][i, p] = max(1 + away, floor)


def fm_scores(X, bias, numbers, t=0.0):
    """Score the rows of a dense matrix; numbers[0] are the weights, numbers[f] the factors f of all features.

    t: of each feature, the weight of its field; a pair counts 1 - t_i t_j.
    """
    t = np.broadcast_to(t, X.shape[1])
    counts = np.triu(1 - np.outer(t, t), 1)  # each pair once
    return bias + X @ numbers[0] + sum((((X * v) @ counts) * X * v).sum(axis=1) for v in numbers[1:])


def conditional(X, labels, weights, bias, numbers, f, i, alpha, precision, mean, t):
    """Return mean and variance of one parameter given all others: its slope is what adding 1 to it does."""
    score = fm_scores(X, bias, numbers, t)
    moved = numbers.copy()
    moved[f, i] += 1
    h = fm_scores(X, bias, moved, t) - score
    A, B = (weights * h * h).sum(), (weights * h * (labels - score)).sum()
    p = precision + alpha * A
    return (alpha * (B + A * numbers[f, i]) + precision * mean) / p, 1 / p


def gibbs_sweep(X, labels, weights, bias, numbers, lengths, order, alpha, prior, normals, t=0.0):
    """Draw bias, weights and factors one after the other; return the new bias, numbers and conditional means.

    prior(f, i) returns precision and mean, normals(f, i) a normal number; normals(None, None) is that of the bias.
    """
    numbers, means, total = numbers.copy(), numbers.copy(), weights.sum()
    error = labels - fm_scores(X, bias, numbers, t)
    bias += (weights * error).sum() / total + normals(None, None) / np.sqrt(alpha * total)
    for f in range(len(numbers)):
        for i in (i for i in order if f == 0 or f <= lengths[i]):
            mean, variance = conditional(X, labels, weights, bias, numbers, f, i, alpha, *prior(f, i), t)
            means[f, i] = mean
            numbers[f, i] = mean + normals(f, i) * np.sqrt(variance)
    return bias, numbers, means


def auc(labels, scores):
    """Return the share of (positive, negative) pairs in the right order, ties half."""
    positive = [s for s, y in zip(scores, labels) if y > 0]
    negative = [s for s, y in zip(scores, labels) if y <= 0]
    wins = sum((p > n) + 0.5 * (p == n) for p in positive for n in negative)
    return wins / (len(positive) * len(negative))


def log_loss(labels, scores, weights):
    """Return the weighted mean of -log of the probability given to what happened."""
    chosen = [p if y > 0 else 1 - p for p, y in zip(sigmoid(np.asarray(scores)), labels)]
    return -np.dot(weights, np.log(chosen)) / np.sum(weights)


def nearest_levels(count, ranks, scale):
    """Return |log(c n) - log D_k| for every level k."""
    return [abs(np.log(scale * count) - np.log(rank)) for rank in ranks]


def numbered(row, ids):
    """Return the row's known nonzeros as (number, value), rising; ids[number] is the id of a number."""
    place = {i: number for number, i in enumerate(ids)}
    return sorted((place[i], x) for i, x in zip(*row) if i in place and x != 0)
