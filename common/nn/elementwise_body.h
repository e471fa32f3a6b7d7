/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise_body.h - plan, forward and backward of a layer that maps each value by itself and
 * whose gradient follows from its output. For common/nn only.
 *
 * A file defines two functions and then includes this header once:
 *
 *     values(x, y, n)          computes y (n) from x (n)
 *     slopes(y, dy, dx, n)     computes dx (n) from y and dy (n)
 *
 * The header defines PS_ELEMENTWISE, the members of the file's ps_layer.
 */
static ps_status elementwise_plan(ps_layer_plan *plan)
{
    plan->out = plan->in;
    return ps_ok();
}

static void elementwise_forward(const ps_layer_plan *plan, const ps_pass *pass,
                                const float *const *w, const float *x, float *y, float *tape,
                                size_t n)
{
    (void)pass;
    (void)w;
    (void)tape;
    values(x, y, n * ps_shape_size(&plan->in));
}

static void elementwise_backward(const ps_layer_plan *plan, const ps_pass *pass,
                                 const float *const *w, const float *x, const float *y, float *tape,
                                 const float *dy, float *const *dw, float *dx, size_t n)
{
    (void)pass;
    (void)w;
    (void)x;
    (void)tape;
    (void)dw;
    if (dx != NULL) {
        slopes(y, dy, dx, n * ps_shape_size(&plan->in));
    }
}

#define PS_ELEMENTWISE                                                                             \
    .forward_by_sample = true, .backward_by_sample = true, .plan = elementwise_plan,               \
    .forward = elementwise_forward, .backward = elementwise_backward
