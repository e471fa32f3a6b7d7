/* SPDX-License-Identifier: Apache-2.0 */
/* descriptors.h - all .proto files of this program, compiled, as one
 * serialised google.protobuf.FileDescriptorSet (imports before importers).
 */
#ifndef PS_PROTO_DESCRIPTORS_H
#define PS_PROTO_DESCRIPTORS_H

#include <stddef.h>
#include <stdint.h>

extern const size_t ps_descriptor_set_len; /* bytes */
extern const uint8_t ps_descriptor_set[];

#endif
