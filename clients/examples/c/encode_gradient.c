/* SPDX-License-Identifier: Apache-2.0 */
/* encode_gradient.c - encodes a gradient with a codec of psgd, and says what that costs.
 *
 *     cc -o encode_gradient encode_gradient.c $(pkg-config --cflags --libs psgd) -lm
 *     ./encode_gradient topk:fraction=0.01,error_feedback=1
 *
 * Exit code: 0, or 1 if the codec is refused.
 */
#include <psgd.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { VALUES = 100000, STEPS = 20 };

/* Encodes the gradient x (VALUES) STEPS times, and adds each decoded result to `mean`, which is
 * zero before. Sets *bytes to the size of the last encoding. Returns |mean / STEPS - x| / |x|, the
 * error of the mean of the decoded values; NAN after a failure. */
static double send_steps(const psgd_codec *codec, const float *x, float *mean, size_t *bytes)
{
    size_t size = psgd_codec_bound(codec, VALUES);
    uint8_t *out = malloc(size);
    float *state = calloc(psgd_codec_state_floats(codec, VALUES) + 1, sizeof *state);
    double lost = 0, all = 0;
    int code = out != NULL && state != NULL ? PSGD_OK : PSGD_RESOURCE_EXHAUSTED;

    for (uint64_t step = 0; step < STEPS && code == PSGD_OK; step++) {
        psgd_draw draw = {.seed = 1, .clock = step, .contributor = 0};

        code = psgd_codec_encode(codec, &draw, state, x, VALUES, out, size, bytes);
        if (code == PSGD_OK) { /* a real program would send the bytes of `out` here */
            code = psgd_codec_decode(codec, out, *bytes, mean, VALUES, 1);
        }
    }
    for (size_t i = 0; i < VALUES; i++) {
        lost += pow(mean[i] / STEPS - x[i], 2);
        all += pow(x[i], 2);
    }
    free(out);
    free(state);
    return code == PSGD_OK ? sqrt(lost / all) : NAN;
}

int main(int argc, char **argv)
{
    static float x[VALUES], mean[VALUES];
    psgd_codec *codec;
    size_t bytes = 0;
    double error;

    for (size_t i = 0; i < VALUES; i++) {
        x[i] = sinf((float)i) / (1 + (float)(i % 100));
    }
    if (psgd_codec_create(argc > 1 ? argv[1] : "f32", &codec) != PSGD_OK) {
        fprintf(stderr, "%s\n", psgd_last_error());
        return 1;
    }
    error = send_steps(codec, x, mean, &bytes);
    printf("psgd %s: %d values in %zu bytes, error of the mean of %d steps %.3f\n", psgd_version(),
           VALUES, bytes, STEPS, error);
    psgd_codec_destroy(codec);
    return 0;
}
