/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - see weights.h. */
#include "common/artifact/weights.h"

#include "common/base/nonfinite.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)PS_SHAPE_MAX <= (int)PS_TENSOR_RANK_MAX, "every variable is a tensor");

enum { SHAPE_TEXT = 48 };

static ps_tensor tensor_of(const ps_variable *variable, const float *block)
{
    ps_tensor tensor = {.name = variable->name,
                        .rank = variable->shape.rank,
                        .data = block != NULL ? block + variable->at : NULL};

    for (uint32_t d = 0; d < tensor.rank; d++) {
        tensor.dim[d] = variable->shape.dim[d];
    }
    return tensor;
}

/* Returns the tensors of all variables; the caller frees them. If `block` is NULL, they have names
 * and shapes but no data. */
static ps_tensor *tensors_of(const ps_variable *variables, size_t count, const float *block)
{
    ps_tensor *tensors = ps_xcalloc(count + 1, sizeof *tensors);

    for (size_t v = 0; v < count; v++) {
        tensors[v] = tensor_of(&variables[v], block);
    }
    return tensors;
}

ps_status ps_weights_write(const char *path, const ps_variable *variables, size_t count,
                           const float *block, const ps_meta *meta, size_t meta_count)
{
    ps_tensor *tensors = tensors_of(variables, count, block);
    ps_status st = ps_safetensors_write(path, tensors, count, meta, meta_count);

    free(tensors);
    return st;
}

ps_status ps_weights_write_from(const char *path, const ps_variable *variables, size_t count,
                                const ps_meta *meta, size_t meta_count,
                                const ps_tensor_source *source, ps_written *written)
{
    ps_tensor *tensors = tensors_of(variables, count, NULL);
    ps_status st =
        ps_safetensors_write_from(path, tensors, count, meta, meta_count, source, written);

    free(tensors);
    return st;
}

/* Writes the shape, as in "[3, 5]", cut to fit `out`. Returns `out`. */
static const char *shape_text(const ps_tensor *tensor, char out[SHAPE_TEXT])
{
    size_t n = (size_t)snprintf(out, SHAPE_TEXT, "[");

    for (uint32_t d = 0; d < tensor->rank && n < SHAPE_TEXT; d++) {
        n += (size_t)snprintf(out + n, SHAPE_TEXT - n, "%s%llu", d == 0 ? "" : ", ",
                              (unsigned long long)tensor->dim[d]);
    }
    if (n < SHAPE_TEXT) {
        snprintf(out + n, SHAPE_TEXT - n, "]");
    }
    return out;
}

static bool is_same_shape(const ps_tensor *a, const ps_tensor *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof a->dim[0]) == 0;
}

/* Checks that all values of a tensor are finite. Passes if it has no data, only a shape. */
static ps_status check_values(const ps_tensor *tensor, size_t size)
{
    size_t i = tensor->data != NULL ? ps_first_nonfinite(tensor->data, size) : size;

    return i == size ? ps_ok()
                     : ps_fail(PS_INVALID_ARGUMENT,
                               "tensor \"%s\": value %zu is %g, expected a finite number",
                               PS_SHORT(tensor->name, 40), i, (double)tensor->data[i]);
}

/* Compares tensors by name, for sorting and bsearch. */
static int by_name(const void *a, const void *b)
{
    const ps_tensor *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static ps_tensor *sorted_of_file(const ps_safetensors *file)
{
    size_t count = ps_safetensors_count(file);
    ps_tensor *sorted = ps_xcalloc(count + 1, sizeof *sorted);

    for (size_t i = 0; i < count; i++) {
        sorted[i] = *ps_safetensors_at(file, i);
    }
    qsort(sorted, count, sizeof *sorted, by_name);
    return sorted;
}

static const ps_tensor *find(const ps_tensor *sorted, size_t count, const char *name)
{
    const ps_tensor key = {.name = name};

    return count == 0 ? NULL : bsearch(&key, sorted, count, sizeof *sorted, by_name);
}

/* Checks that `found` has the shape of a variable, and finite values if it has data. `found` is
 * NULL if the file has no tensor of the variable's name; that fails. */
static ps_status check_one(const ps_variable *variable, const ps_tensor *found)
{
    ps_tensor expected = tensor_of(variable, NULL);
    char want[SHAPE_TEXT], have[SHAPE_TEXT];

    if (found == NULL) {
        return ps_fail(PS_INVALID_ARGUMENT, "tensor \"%s\": expected %s, found none of that name",
                       PS_SHORT(variable->name, 40), shape_text(&expected, want));
    }
    if (!is_same_shape(&expected, found)) {
        return ps_fail(PS_INVALID_ARGUMENT, "tensor \"%s\": expected %s, found %s",
                       PS_SHORT(variable->name, 40), shape_text(&expected, want),
                       shape_text(found, have));
    }
    return check_values(found, variable->size);
}

/* Fails with the first tensor of the file, if any, whose name no variable has. */
static ps_status check_surplus(const ps_safetensors *file, const ps_variable *variables,
                               size_t count)
{
    for (size_t i = 0; i < ps_safetensors_count(file); i++) {
        const ps_tensor *tensor = ps_safetensors_at(file, i);
        bool is_known = false;
        char have[SHAPE_TEXT];

        for (size_t v = 0; v < count && !is_known; v++) {
            is_known = strcmp(variables[v].name, tensor->name) == 0;
        }
        if (!is_known) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "tensor \"%s\": expected none of that name, found %s",
                           PS_SHORT(tensor->name, 40), shape_text(tensor, have));
        }
    }
    return ps_ok();
}

/* Returns the end of the file's name, at most 40 bytes, so that the reason fits into the message
 * too. */
static const char *short_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    size_t n = strlen(name);

    return n > 40 ? name + n - 40 : name;
}

/* Checks that the file has a tensor of the name and shape of each variable, with finite values, and
 * no other tensor. `sorted` has the file's tensors by name. */
static ps_status check(const ps_safetensors *file, const ps_tensor *sorted,
                       const ps_variable *variables, size_t count)
{
    size_t in_file = ps_safetensors_count(file);
    ps_status st = ps_ok();

    for (size_t v = 0; v < count && ps_is_ok(&st); v++) {
        st = check_one(&variables[v], find(sorted, in_file, variables[v].name));
    }
    if (ps_is_ok(&st) && in_file != count) {
        st = check_surplus(file, variables, count);
    }
    return st;
}

ps_status ps_weights_check_finite(const ps_variable *variables, size_t count, const float *block)
{
    ps_status st = ps_ok();

    for (size_t v = 0; v < count && ps_is_ok(&st); v++) {
        ps_tensor tensor = tensor_of(&variables[v], block);

        st = check_values(&tensor, variables[v].size);
    }
    return ps_is_ok(&st) ? st : ps_fail(PS_INTERNAL, "the model is of no use: %s", st.text);
}

ps_status ps_weights_check(const char *path, const ps_variable *variables, size_t count)
{
    ps_safetensors *file = NULL;
    ps_tensor *sorted;
    ps_status st = ps_safetensors_open_shapes(path, &file);

    if (!ps_is_ok(&st)) {
        return st;
    }
    sorted = sorted_of_file(file);
    st = check(file, sorted, variables, count);
    free(sorted);
    ps_safetensors_close(file);
    return ps_wrap(st, "%s", short_name(path));
}

ps_status ps_weights_read(const char *path, const ps_variable *variables, size_t count,
                          float *block)
{
    ps_safetensors *file = NULL;
    ps_tensor *sorted;
    ps_status st = ps_safetensors_open(path, &file);

    if (!ps_is_ok(&st)) {
        return st;
    }
    sorted = sorted_of_file(file);
    st = check(file, sorted, variables, count);
    for (size_t v = 0; v < count && ps_is_ok(&st); v++) {
        const ps_tensor *from = find(sorted, count, variables[v].name);

        memcpy(block + variables[v].at, from->data, variables[v].size * sizeof *block);
    }
    free(sorted);
    ps_safetensors_close(file);
    return ps_wrap(st, "%s", short_name(path));
}
