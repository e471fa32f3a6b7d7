/* SPDX-License-Identifier: Apache-2.0 */
/* linked.h - lists of structs that have the members prev and next, NULL at the ends. `first` is the
 * list: a pointer to its first struct, NULL if it is empty. The arguments are evaluated several
 * times. Threads: the caller's concern. */
#ifndef PS_COMMON_BASE_LINKED_H
#define PS_COMMON_BASE_LINKED_H

#include <stddef.h>

/* Puts the item, which is in no list, before all others. */
#define PS_LINK_FIRST(first, item)                                                                 \
    do {                                                                                           \
        (item)->prev = NULL;                                                                       \
        (item)->next = (first);                                                                    \
        if ((first) != NULL) {                                                                     \
            (first)->prev = (item);                                                                \
        }                                                                                          \
        (first) = (item);                                                                          \
    } while (0)

/* Takes the item out of its list. */
#define PS_UNLINK(first, item)                                                                     \
    do {                                                                                           \
        *((item)->prev != NULL ? &(item)->prev->next : &(first)) = (item)->next;                   \
        if ((item)->next != NULL) {                                                                \
            (item)->next->prev = (item)->prev;                                                     \
        }                                                                                          \
    } while (0)

#endif
