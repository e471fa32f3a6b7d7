/* SPDX-License-Identifier: Apache-2.0 */
/* container_of.h - finds the struct that holds a member. */
#ifndef PS_COMMON_BASE_CONTAINER_OF_H
#define PS_COMMON_BASE_CONTAINER_OF_H

#include <stddef.h>

#define PS_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
