/* SPDX-License-Identifier: Apache-2.0 */
/* make_safetensors.c - writes the model file that check_safetensors.py expects. */
#include "common/artifact/safetensors.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    static const float w[6] = {1, -2.5f, 0, 0.1f, 1e-40f, 3e38f};
    static const float b[2] = {0.5f, -0.25f};
    const ps_tensor tensors[] = {{.name = "dense1/w", .rank = 2, .dim = {2, 3}, .data = w},
                                 {.name = "dense1/b", .rank = 1, .dim = {2}, .data = b},
                                 {.name = "scale", .rank = 0, .data = b}};
    const ps_meta meta[] = {{"format", "pt"}, {"title", "a \"quoted\" \xc3\xa9"}};
    ps_status st;

    if (argc != 2) {
        fprintf(stderr, "usage: make_safetensors FILE\n");
        return 1;
    }
    st = ps_safetensors_write(argv[1], tensors, 3, meta, 2);
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "%s\n", st.text);
        return 1;
    }
    return 0;
}
