/* SPDX-License-Identifier: Apache-2.0 */
/* vm.h - runs a file of Lua code within budgets.
 *
 * The file runs anew for each call, and its globals cannot be written, so nothing stays from one
 * call to the next: the result follows from the arguments, in whichever process it is computed.
 * One thing of Lua does not: the length of a table with holes (#t) may be any of its borders.
 */
#ifndef PS_COMMON_SANDBOX_VM_H
#define PS_COMMON_SANDBOX_VM_H

#include "common/script/sandbox_protocol.h"

/* Does what the memory asks for, and leaves the answer there. */
void ps_vm_answer(ps_sandbox_memory *shared);

#endif
