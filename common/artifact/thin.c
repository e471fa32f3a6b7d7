/* SPDX-License-Identifier: Apache-2.0 */
/* thin.c - see thin.h. */
#include "common/artifact/thin.h"

static uint64_t window_rows(const ps_thin *thin)
{
    return thin->doublings == 0 ? 1 : (uint64_t)2 << thin->doublings;
}

static void end_window(ps_thin *thin)
{
    thin->rows = 0;
    thin->kept += thin->doublings == 0 ? 1 : 2;
    if (thin->kept >= PS_THIN_ROWS && thin->doublings < PS_THIN_DOUBLINGS_MAX) {
        thin->kept = 0;
        thin->doublings++;
    }
}

unsigned ps_thin_add(ps_thin *thin, double value)
{
    unsigned keep = 0;

    if (thin->rows == 0 || value < thin->least) {
        thin->least = value;
        keep |= PS_THIN_LEAST;
    }
    if (thin->rows == 0 || value > thin->greatest) {
        thin->greatest = value;
        keep |= PS_THIN_GREATEST;
    }
    if (++thin->rows >= window_rows(thin)) { /* greater only if a damaged checkpoint was restored */
        end_window(thin);
        keep |= PS_THIN_END;
    }
    return keep;
}
