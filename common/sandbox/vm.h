/* SPDX-License-Identifier: Apache-2.0 */
/* vm.h - runs a file of Lua code within budgets.
 *
 * The file runs anew for each call, and its globals cannot be written, so nothing stays from one
 * call to the next. So the result depends on the arguments only, in whichever process it is
 * computed. There is one exception: the length #t of a Lua table with holes may be any of its
 * borders. */
#ifndef PS_COMMON_SANDBOX_VM_H
#define PS_COMMON_SANDBOX_VM_H

#include "common/script/sandbox_protocol.h"

/* Makes the calls that the shared memory describes, and writes the answer to it. */
void ps_vm_answer(ps_sandbox_memory *shared);

#endif
