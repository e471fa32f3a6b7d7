/* SPDX-License-Identifier: Apache-2.0 */
/* make_events.c FILE - writes the event file that check_events.py knows. */
#include "common/artifact/events.h"

#include <math.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    ps_events *events = NULL;
    ps_status st = ps_fail(PS_INVALID_ARGUMENT, "usage: make_events FILE");

    if (argc == 2) {
        st = ps_events_open(argv[1], 1700000000.25, &events);
    }
    if (ps_is_ok(&st)) {
        for (unsigned step = 1; step <= 300; step++) {
            const ps_scalar points[] = {{"train/loss", 1.0 / step}, {"wire/bytes_up", 5e9 * step}};

            ps_events_add(events, 1700000000.5 + step, step, points, 2);
        }
        ps_events_add(events, 1700000400, UINT64_C(1) << 40, &(ps_scalar){"test/loss", NAN}, 1);
        st = ps_events_close(events);
    }
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "%s\n", st.text);
    }
    return !ps_is_ok(&st);
}
