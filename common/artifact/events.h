/* SPDX-License-Identifier: Apache-2.0 */
/* events.h - TensorBoard event files: scalars by step.
 *
 * A folder with such a file is a run. Layout (tensorboard/summary/writer/record_writer.py):
 * records of u64 length, u32 masked CRC-32C of the length, the bytes, u32 masked CRC-32C
 * of the bytes, all little-endian; masked is rotr(crc, 15) + 0xa282ead8. The bytes are an
 * Event of proto/tensorboard/event.proto; the first has the file version "brain.Event:2",
 * the others a Summary.
 */
#ifndef PS_COMMON_ARTIFACT_EVENTS_H
#define PS_COMMON_ARTIFACT_EVENTS_H

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* The name that a viewer looks for in a run's folder. */
#define PS_EVENTS_NAME "events.out.tfevents.psgd"

typedef struct ps_events ps_events;

/* One point of a curve. */
typedef struct ps_scalar {
    const char *tag; /* "train/loss": curve loss, under the heading train */
    double value;    /* kept as float32; any, also NaN */
} ps_scalar;

/* Makes the folder that the file lies in. An existing file is replaced; wall_s is now, in seconds
 * since 1970. One thread at a time. */
PS_MUST_USE ps_status ps_events_open(const char *path, double wall_s, ps_events **out);

/* Points at `step`. Buffered; nothing stays unwritten for more than a second of
 * points or until close. */
void ps_events_add(ps_events *events, double wall_s, uint64_t step, const ps_scalar *scalars,
                   size_t count);

/* Writes events that wait for room; RESOURCE_EXHAUSTED while there is none. */
PS_MUST_USE ps_status ps_events_flush(ps_events *events);

/* Fails if events cannot be written now; always frees. */
PS_MUST_USE ps_status ps_events_close(ps_events *events);

#endif
