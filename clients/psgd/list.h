/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - lists every subcommand, one a line. It has no include guard: a caller defines
 * PS_SUBCOMMAND(name) and includes it. */
PS_SUBCOMMAND(train)
PS_SUBCOMMAND(submit)
PS_SUBCOMMAND(list)
PS_SUBCOMMAND(get)
PS_SUBCOMMAND(watch)
PS_SUBCOMMAND(cancel)
PS_SUBCOMMAND(tables)
PS_SUBCOMMAND(delete)
PS_SUBCOMMAND(logs)
PS_SUBCOMMAND(download)
PS_SUBCOMMAND(nodes)
PS_SUBCOMMAND(info)
PS_SUBCOMMAND(presets)
PS_SUBCOMMAND(eval)
PS_SUBCOMMAND(predict)
