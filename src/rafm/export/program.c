/* What follows is the same for every model. To use it as a library, compile with -DRAFM_NO_MAIN. */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef RAFM_MAX_NONZEROS
#define RAFM_MAX_NONZEROS 1024 /* known features of a row; they are sorted on the stack */
#endif
#define CHUNK 64 /* coordinates summed at a time */

enum { RAFM_OK = 0, RAFM_TOO_MANY = 1, RAFM_REPEATED = 2, RAFM_NOT_FINITE = 3, RAFM_NEGATIVE = 4 };

int rafm_score(const int64_t *ids, const float *values, size_t n, double *score);
int rafm_predict(const int64_t *ids, const float *values, size_t n, double *prediction);
const char *rafm_message(int code);

/* Return the number of a feature, or -1 if the model does not know it. */
static int32_t number_of(int64_t id)
{
#if DENSE_IDS
    (void)n_features;
    return id < N_INPUTS ? numbers[id] : -1;
#else
    size_t low = 0, high = n_features;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sorted_ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n_features && sorted_ids[low] == id ? sorted_numbers[low] : -1;
#endif
}

/* Sort the known features of a row by number, which is by falling level; Shell sort needs no memory. */
static void sort_row(int32_t *row, double *x, size_t n)
{
    size_t gap = 1;
    while (gap < n / 3)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (size_t q = gap; q < n; q++) {
            int32_t i = row[q];
            double value = x[q];
            size_t at = q;
            for (; at >= gap && row[at - gap] > i; at -= gap) {
                row[at] = row[at - gap];
                x[at] = x[at - gap];
            }
            row[at] = i;
            x[at] = value;
        }
}

#if N_BLOCKS > 0
/* Copy coordinates of the vector of feature i in block p. */
static void read_vector(size_t p, int32_t i, size_t from, size_t width, double *out)
{
    size_t start = (size_t)i * strides[p];
#if BITS == 32
    for (size_t c = 0; c < width; c++)
        out[c] = (double)blocks[p][start + from + c];
#else
    double scale = (double)scales[p][i];
    for (size_t c = 0; c < width; c++) {
#if BITS == 4
        int both = blocks[p][start + (from + c) / 2];
        int code = (from + c) % 2 ? both >> 4 : both & 15;
        out[c] = scale * (double)((code ^ 8) - 8); /* 8 to 15 are negative */
#else
        out[c] = scale * (double)blocks[p][start + from + c];
#endif
    }
#endif
}

#endif

#if N_BLOCKS > 0 && !MIXTURE
/* Return the number of leading features below a bound; numbers ascend. */
static size_t count_below(const int32_t *row, size_t n, int32_t bound)
{
    size_t count = 0;
    while (count < n && row[count] < bound)
        count++;
    return count;
}

/* Return the pairs of block p that have a feature behind the first `dependents`: each vector times the sum of those
   before it. With field weights t, y = (1 - t) x, and a pair counts 1 - t_a t_b = (1 - t_b) + (1 - t_a) t_b. No square
   of a value is subtracted again, so a large value takes no digits from the rest. */
static double pairs_of_block(size_t p, const int32_t *row, const double *x, const double *y, size_t dependents, size_t n)
{
    double total = 0;
    for (size_t from = 0; from < ranks[p]; from += CHUNK) {
        size_t width = ranks[p] - from < CHUNK ? ranks[p] - from : CHUNK;
        double sums[CHUNK] = {0}, others[CHUNK] = {0}, vector[CHUNK];
        for (size_t q = 0; q < n; q++) {
            read_vector(p, row[q], from, width, vector);
            for (size_t c = 0; c < width; c++) {
                double partner = N_FIELD_WEIGHTS ? sums[c] * y[q] + others[c] * (x[q] - y[q]) : sums[c] * x[q];
                if (q >= dependents)
                    total += vector[c] * partner;
                sums[c] += vector[c] * x[q];
                others[c] += vector[c] * y[q];
            }
        }
    }
    return total;
}
#endif

#if HEAD_FIELDS
/* Return the product of the vectors of features i and j, of which j has the lower level. */
static double product_of(int32_t i, int32_t j)
{
    double total = 0, left[CHUNK], right[CHUNK];
    size_t level = 0;
    while (level < N_BLOCKS && j < sizes[level])
        level++;
    for (size_t p = NESTED && level > 0 ? level - 1 : 0; p < level; p++)
        for (size_t from = 0; from < ranks[p]; from += CHUNK) {
            size_t width = ranks[p] - from < CHUNK ? ranks[p] - from : CHUNK;
            read_vector(p, i, from, width, left);
            read_vector(p, j, from, width, right);
            for (size_t c = 0; c < width; c++)
                total += left[c] * right[c];
        }
    return total;
}

/* Add the pair of two fields to what the network takes in: one sum for every two, or one for each of many. */
static void add_pair(double *account, size_t a, size_t b, double amount)
{
#if HEAD_PAIRED
    size_t low = a < b ? a : b, high = a < b ? b : a;
    account[1 + low * (2 * HEAD_FIELDS - low - 1) / 2 + high - low - 1] += amount;
#else
    account[1 + a] += amount;
    account[1 + b] += amount;
#endif
}

/* Return what the network adds to the score of a row. */
static double network_output(double score, const int32_t *row, const double *x, size_t n)
{
    const size_t linear = HEAD_INPUTS - 2 * HEAD_FIELDS, counts = HEAD_INPUTS - HEAD_FIELDS;
    double account[HEAD_INPUTS] = {0}, units[HEAD_UNITS], total = (double)head_output_bias[0];
    account[0] = score;
    for (size_t q = 0; q < n; q++) {
        size_t a = (size_t)fields[row[q]];
        if (a >= HEAD_FIELDS)
            continue;
        account[linear + a] += (double)weights[row[q]] * x[q];
        account[counts + a] += (double)log_counts[row[q]];
        for (size_t d = 0; d < q; d++) {
            size_t b = (size_t)fields[row[d]];
            if (b < HEAD_FIELDS && a != b)
                add_pair(account, a, b, product_of(row[d], row[q]) * x[d] * x[q]);
        }
    }
    for (size_t u = 0; u < HEAD_UNITS; u++)
        units[u] = (double)head_hidden_bias[u];
    for (size_t k = 0; k < HEAD_INPUTS; k++) {
        double input = (account[k] - (double)head_means[k]) * (double)head_scales[k];
        input = input > HEAD_LIMIT ? HEAD_LIMIT : input < -HEAD_LIMIT ? -HEAD_LIMIT : input;
        for (size_t u = 0; u < HEAD_UNITS; u++)
            units[u] += input * (double)head_hidden[k * HEAD_UNITS + u];
    }
    for (size_t u = 0; u < HEAD_UNITS; u++)
        if (units[u] > 0)
            total += units[u] * (double)head_output[u];
    return total;
}
#endif

/* Return what the pairs of a row add to its score. */
static double pairs_of_row(const int32_t *row, const double *x, size_t n)
{
    double total = 0;
#if MIXTURE
    double weights_sum = 0;
    if (n != 2)
        return 0;
    for (size_t p = 0; p < N_BLOCKS; p++) {
        double share = (double)mixture[(size_t)row[0] * N_BLOCKS + p] * (double)mixture[(size_t)row[1] * N_BLOCKS + p];
        double left[CHUNK], right[CHUNK], product = 0;
        for (size_t from = 0; from < ranks[p]; from += CHUNK) {
            size_t width = ranks[p] - from < CHUNK ? ranks[p] - from : CHUNK;
            read_vector(p, row[0], from, width, left);
            read_vector(p, row[1], from, width, right);
            for (size_t c = 0; c < width; c++)
                product += left[c] * right[c];
        }
        total += share * product;
        weights_sum += share;
    }
    return total / weights_sum * x[0] * x[1];
#elif N_BLOCKS > 0
    double y[RAFM_MAX_NONZEROS];
    for (size_t q = 0; q < n; q++)
        y[q] = N_FIELD_WEIGHTS ? x[q] * (1 - (double)field_weights[fields[row[q]]]) : 0;
    for (size_t p = 0; p < N_BLOCKS; p++) {
        size_t stop = count_below(row, n, sizes[p]);
        size_t dependents = NESTED && p + 1 < N_BLOCKS ? count_below(row, n, sizes[p + 1]) : 0;
        if (dependents < stop && stop > 1)
            total += pairs_of_block(p, row, x, y, dependents, stop);
    }
    return total;
#else
    (void)row;
    (void)x;
    (void)n;
    return total;
#endif
}

/* Set the score of a row of n feature ids, from 0 on, and their values; return RAFM_OK or what is wrong. */
int rafm_score(const int64_t *ids, const float *values, size_t n, double *score)
{
    int32_t row[RAFM_MAX_NONZEROS];
    double x[RAFM_MAX_NONZEROS], total = (double)bias;
    size_t known = 0;
    for (size_t e = 0; e < n; e++) {
        if (ids[e] < 0)
            return RAFM_NEGATIVE;
        if (!isfinite(values[e]))
            return RAFM_NOT_FINITE;
        int32_t i = number_of(ids[e]);
        if (i < 0)
            continue;
        if (known == RAFM_MAX_NONZEROS)
            return RAFM_TOO_MANY;
        row[known] = i;
        x[known++] = (double)values[e];
    }
    sort_row(row, x, known);
    size_t kept = 0;
    for (size_t q = 0; q < known; q++) {
        if (q > 0 && row[q] == row[q - 1])
            return RAFM_REPEATED;
        total += (double)weights[row[q]] * x[q];
    }
    for (size_t q = 0; q < known; q++) /* a value of 0 is as good as none */
        if (x[q] < 0 || x[q] > 0) {
            row[kept] = row[q];
            x[kept++] = x[q];
        }
    total += pairs_of_row(row, x, kept);
#if HEAD_FIELDS
    total += network_output(total, row, x, kept);
#endif
    if (!isfinite(total))
        return RAFM_NOT_FINITE;
    *score = total;
    return RAFM_OK;
}

/* Set the prediction of a row: a probability, a value or an expected count. */
int rafm_predict(const int64_t *ids, const float *values, size_t n, double *prediction)
{
    double score = 0;
    int code = rafm_score(ids, values, n, &score);
    if (code != RAFM_OK)
        return code;
#if LINK == 1
    double small = exp(-fabs(score));
    *prediction = (score >= 0 ? 1 : small) / (1 + small);
#elif LINK == 2
    *prediction = exp(score);
#else
    *prediction = score;
#endif
    return RAFM_OK;
}

/* Return the meaning of a code. */
const char *rafm_message(int code)
{
    switch (code) {
    case RAFM_OK:
        return "ok";
    case RAFM_TOO_MANY:
        return "too many features; compile with a larger RAFM_MAX_NONZEROS";
    case RAFM_REPEATED:
        return "a feature id occurs twice";
    case RAFM_NEGATIVE:
        return "a feature id is below the first one";
    default:
        return "a value or the score is not finite";
    }
}

#ifndef RAFM_NO_MAIN
/* Read a line of any length without its end; return 0 at the end of the file, -1 without memory. */
static int read_line(FILE *file, char **line, size_t *room)
{
    size_t size = 0;
    for (;;) {
        int c = getc(file);
        if (size + 1 >= *room) {
            size_t more = *room ? 2 * *room : 256;
            char *grown = realloc(*line, more);
            if (grown == NULL)
                return -1;
            *line = grown;
            *room = more;
        }
        if (c == EOF || c == '\n') {
            (*line)[size] = 0;
            return c != EOF || size > 0;
        }
        (*line)[size++] = (char)(c == 0 ? '?' : c); /* nothing may hide behind the end of a string */
    }
}

struct row {
    int64_t *ids;
    float *values;
    size_t n, room;
};

static int append(struct row *row, int64_t id, float value)
{
    if (row->n == row->room) {
        size_t more = row->room ? 2 * row->room : 64;
        int64_t *ids = realloc(row->ids, more * sizeof *ids);
        if (ids != NULL)
            row->ids = ids;
        float *values = realloc(row->values, more * sizeof *values);
        if (values != NULL)
            row->values = values;
        if (ids == NULL || values == NULL)
            return -1;
        row->room = more;
    }
    row->ids[row->n] = id;
    row->values[row->n++] = value;
    return 0;
}

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Parse a decimal number up to a blank; return its length, or 0 if it is something else: nan, inf, hexadecimal, text. */
static size_t parse_number(const char *text, float *value)
{
    size_t size = strcspn(text, " \t\r");
    char *end = NULL;
    if (size == 0 || strspn(text, "0123456789+-.eE") != size)
        return 0;
    *value = (float)strtod(text, &end);
    return end == text + size ? size : 0;
}

/* Parse "id:value" up to a blank; return its length, or 0 if it is something else. */
static size_t parse_entry(const char *text, int64_t *id, float *value)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || text[digits] != ':')
        return 0;
    errno = 0;
    *id = strtoll(text, NULL, 10);
    size_t size = errno == 0 ? parse_number(text + digits + 1, value) : 0;
    return size > 0 ? digits + 1 + size : 0;
}

/* Return whether nothing but blanks is before a place of a line. */
static int is_first(const char *line, const char *at)
{
    return strspn(line, " \t") == (size_t)(at - line);
}

/* Parse a line "label id:value ...", whose label may be missing; return NULL, or where it is wrong. */
static const char *parse_line(char *line, struct row *row)
{
    char *comment = strchr(line, '#');
    if (comment != NULL)
        *comment = 0;
    row->n = 0;
    for (const char *at = line; *at;) {
        int64_t id = 0;
        float value = 0;
        if (is_blank(*at)) {
            at++;
            continue;
        }
        size_t size = parse_entry(at, &id, &value);
        if (size > 0) {
            if (append(row, id - INDEX_BASE, value) != 0)
                return at;
        } else if (is_first(line, at)) {
            size = parse_number(at, &value);
            if (size == 0 || !isfinite(value))
                return at;
        } else {
            return at;
        }
        at += size;
    }
    return NULL;
}

/* Read libsvm lines from standard input and print one prediction per line. */
int main(void)
{
    char *line = NULL;
    size_t room = 0, number = 0;
    struct row row = {NULL, NULL, 0, 0};
    int status = 0, more;
    while (status == 0 && (more = read_line(stdin, &line, &room)) > 0) {
        double prediction = 0;
        number++;
        if (line[strspn(line, " \t\r")] == 0 || line[strspn(line, " \t\r")] == '#')
            continue;
        const char *wrong = parse_line(line, &row);
        if (wrong != NULL) {
            const char *rule = is_first(line, wrong) ? "a number as the label, or id:value" : "id:value";
            fprintf(stderr, "error: -:%zu:%td: expected %s\n", number, wrong - line + 1, rule);
            status = 3;
            break;
        }
        int code = rafm_predict(row.ids, row.values, row.n, &prediction);
        if (code != RAFM_OK) {
            fprintf(stderr, "error: -:%zu: %s\n", number, rafm_message(code));
            status = 3;
        } else if (printf("%.17g\n", prediction) < 0) {
            status = 6;
        }
    }
    if (status == 0 && more < 0) {
        fprintf(stderr, "error: out of memory\n");
        status = 6;
    }
    if (fflush(stdout) != 0 || ferror(stdin))
        status = 6;
    free(line);
    free(row.ids);
    free(row.values);
    return status;
}
#endif
