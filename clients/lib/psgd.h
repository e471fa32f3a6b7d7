/* SPDX-License-Identifier: Apache-2.0 */
/* psgd.h - libpsgd: the codecs of psgd for other programs, by the code that workers run.
 *
 *     psgd_codec *codec;
 *     if (psgd_codec_create("topk:fraction=0.01", &codec) != PSGD_OK) {
 *         fprintf(stderr, "%s\n", psgd_last_error());
 *     }
 *     size_t size = psgd_codec_bound(codec, n), len;
 *     uint8_t *bytes = malloc(size);
 *     psgd_codec_encode(codec, NULL, NULL, x, n, bytes, size, &len);
 *     psgd_codec_decode(codec, bytes, len, y, n, 0);
 *
 * An encoding is u64 n, the number of values, and then slices of 16,384 values, as a job cuts a
 * variable; the last one may be shorter. A slice is u32 h | h bytes, the message psgd.v1.Encoding |
 * its payload_bytes. Head and payload are the bytes that a worker pushes for slices 0, 1, ... of a
 * job. Numbers are little-endian.
 *
 * Errors: functions that can fail return PSGD_OK or a code, and psgd_last_error then has the text.
 * Content of arguments from elsewhere, such as bytes to decode, never ends the process.
 * Threads: any thread may call any function; a codec does not change after its creation. A state
 * and an output belong to one call at a time.
 * Memory: pointers are borrowed until return, except the codec, which the caller destroys.
 */
#ifndef PSGD_H
#define PSGD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Codes of errors, with the numbers of gRPC. */
enum {
    PSGD_OK = 0,
    PSGD_INVALID_ARGUMENT = 3,   /* an argument is wrong; the text says what is allowed */
    PSGD_RESOURCE_EXHAUSTED = 8, /* there is no memory, or no room in `out` */
    PSGD_DATA_LOSS = 15          /* the bytes are no encoding of n values by this codec */
};

/* Returns the version of the library, such as "0.1.0". Static text. */
const char *psgd_version(void);

/* Returns the text of this thread's last error, "" before the first one. Valid until the thread's
 * next error. */
const char *psgd_last_error(void);

/* Returns the name of codec `index`, or NULL after the last one. Static text. */
const char *psgd_codec_name(size_t index);

/* A codec with its numbers. */
typedef struct psgd_codec psgd_codec;

/* Creates a codec from "NAME" or "NAME:NUMBER=VALUE,NUMBER=VALUE": a name and numbers of
 * `psgd info codecs`, those left out with their defaults. The caller frees *out with psgd_codec_destroy.
 *
 * PSGD_INVALID_ARGUMENT: the text names the name or the number, its value and what is allowed. */
int psgd_codec_create(const char *spec, psgd_codec **out);

/* Frees a codec. NULL is allowed. */
void psgd_codec_destroy(psgd_codec *codec);

/* Returns the most bytes that an encoding of n values takes. */
size_t psgd_codec_bound(const psgd_codec *codec, size_t n);

/* Returns the floats of state that the sender of n values keeps between two encodings; 0 if the
 * codec keeps none. */
size_t psgd_codec_state_floats(const psgd_codec *codec, size_t n);

/* What an encoding's random draws depend on, such as its rounding. Equal draws and values give
 * equal bytes on every processor. */
typedef struct psgd_draw {
    uint64_t seed;        /* of the job */
    uint64_t clock;       /* of the contribution; a new one for each */
    uint64_t contributor; /* whose it is, such as the rank of a worker */
} psgd_draw;

/* Encodes x (n) into `out` (size bytes, at least psgd_codec_bound) and sets *len to the bytes
 * written.
 *
 * draw   NULL: zeros.
 * state  (psgd_codec_state_floats) zeros before the first encoding, or NULL: nothing is kept.
 *        Error feedback, momentum and differences live there. With a state, call the function
 *        once per contribution: to send again, send the same bytes.
 *
 * Non-finite values become what docs/codecs.md says. On failure nothing is changed.
 *
 * PSGD_INVALID_ARGUMENT    a pointer is NULL
 * PSGD_RESOURCE_EXHAUSTED  size is less than the bound */
int psgd_codec_encode(const psgd_codec *codec, const psgd_draw *draw, float *state, const float *x,
                      size_t n, uint8_t *out, size_t size, size_t *len);

/* Decodes len bytes and sets y (n) to the values, or adds them to y if `add` is not 0. Encodings
 * with the number `difference` are changes: add each of them to the sum of those before it.
 * On failure y is unchanged.
 *
 * PSGD_INVALID_ARGUMENT  the bytes are of another codec, or a pointer is NULL
 * PSGD_DATA_LOSS         the bytes are damaged, or of another number of values */
int psgd_codec_decode(const psgd_codec *codec, const uint8_t *in, size_t len, float *y, size_t n,
                      int add);

#ifdef __cplusplus
}
#endif

#endif
