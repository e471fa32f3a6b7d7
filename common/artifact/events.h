/* SPDX-License-Identifier: Apache-2.0 */
/* events.h - writes TensorBoard event files: scalars by step.
 *
 * A folder with such a file is a run. The layout (tensorboard/summary/writer/record_writer.py) is a
 * sequence of records, all little-endian: u64 length, u32 masked CRC-32C of the length, the bytes,
 * u32 masked CRC-32C of the bytes. Masked means rotr(crc, 15) + 0xa282ead8. The bytes are an Event
 * of proto/tensorboard/event.proto. The first has the file version "brain.Event:2", the others have
 * a Summary.
 */
#ifndef PS_COMMON_ARTIFACT_EVENTS_H
#define PS_COMMON_ARTIFACT_EVENTS_H

#include "common/artifact/outlet.h"
#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* The name of the file; a viewer looks for such names in the folder of a run. */
#define PS_EVENTS_NAME "events.out.tfevents.psgd"

typedef struct ps_events ps_events;

/* A point of a curve. */
typedef struct ps_scalar {
    const char *tag; /* "train/loss" is the curve loss under the heading train */
    double value;    /* stored as float32; may be NaN */
} ps_scalar;

/* Creates or replaces the file, and makes its folder. `wall_s` is the current time in seconds
 * since 1970. One thread at a time. */
PS_MUST_USE ps_status ps_events_open(const char *path, double wall_s, ps_events **out);

/* Adds points at `step`. They stay in memory until an event comes that is at least a second later
 * than the last write, or 64 KiB have gathered; flush and close write them. */
void ps_events_add(ps_events *events, double wall_s, uint64_t step, const ps_scalar *scalars,
                   size_t count);

/* Writes buffered events. Fails with RESOURCE_EXHAUSTED while the disk is full; the events then
 * stay in memory for the next try. */
PS_MUST_USE ps_status ps_events_flush(ps_events *events);

/* Writes what is buffered and frees `events` in any case. Fails if the rest cannot be written. */
PS_MUST_USE ps_status ps_events_close(ps_events *events);
/* Returns the file, to copy and replace its content (outlet.h). */
ps_outlet *ps_events_outlet(ps_events *events);

#endif
