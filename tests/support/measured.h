/* SPDX-License-Identifier: Apache-2.0 */
/* measured.h - removes the measured columns from EV files, so that two runs of a job can be
 * compared. */
#ifndef PS_TESTS_SUPPORT_MEASURED_H
#define PS_TESTS_SUPPORT_MEASURED_H

#include <string.h>

/* Cuts time_s, bytes_up and bytes_down, the last columns, off each line of an EV file's text, which
 * is changed in place. */
static inline void drop_measured(char *text)
{
    char *out = text, *end;

    while ((end = strchr(text, '\n')) != NULL) {
        size_t len;

        *end = '\0';
        for (int column = 0; column < 3; column++) {
            char *comma = strrchr(text, ',');

            if (comma != NULL) {
                *comma = '\0';
            }
        }
        len = strlen(text);
        memmove(out, text, len);
        out += len;
        *out++ = '\n';
        text = end + 1;
    }
    *out = '\0';
}

#endif
