/* SPDX-License-Identifier: Apache-2.0 */
/* file_list.h - the names of all files of a data set: entries of the conf that are patterns or
 * folders become the files that they stand for.
 *
 * An entry of the conf is the name of a file, the name of a folder (all its files), or a pattern,
 * in which '*' stands for any characters but a slash and '?' for one. Each may lie one folder
 * deeper:
 * "day-1/part-*". Patterns and folders have the files that exist, in the order of the bytes of
 * their names, so part-10 stands before part-2. A final ".gz" of a file does not belong to its
 * name, as for ps_packed_open. Files whose names begin with a dot are left out. A file that several
 * patterns or folders stand for is listed for one of them: the first test entry, else the first
 * training entry. Patterns and folders leave out files that another entry names, and the conf's
 * file of words. Of the training files the list has those of the conf's share.
 */
#ifndef PS_COMMON_DATA_FILE_LIST_H
#define PS_COMMON_DATA_FILE_LIST_H

#include "common/data/conf.h"

/* The names of the training files, then of the test files, then of the file of words, if any, then
 * of what was learned from all files, if the share lacks some (learned.h). */
typedef struct ps_file_list {
    char (*names)[PS_DATA_FILE_NAME_MAX]; /* (train + test + words + learned) */
    uint32_t train, test, words, learned;
} ps_file_list;

/* Returns the number of all files of a list. */
uint32_t ps_file_list_count(const ps_file_list *list);

/* Lists the files of a conf in `folder`. The caller closes the list after success. Looks only for
 * what patterns and folders stand for: a file that is named is in the list whether it exists or
 * not.
 *
 *   NOT_FOUND           a pattern or folder stands for no file; or no training file is left, or
 *                       there are test entries but no test file is left, since a file that several
 *                       entries stand for is listed for one of them only
 *   INVALID_ARGUMENT    a file has a name that ps_name_is_safe refuses, a link leads out of
 *                       `folder`, or the folder of an entry is itself a pattern; or no training
 *                       file belongs to the conf's share
 *   RESOURCE_EXHAUSTED  there are more than PS_DATA_LIST_MAX files
 */
PS_MUST_USE ps_status ps_file_list_open(const ps_data_conf *conf, const char *folder,
                                        ps_file_list *out);

/* Frees the names. A zeroed list is allowed. */
void ps_file_list_close(ps_file_list *list);

/* Checks that the training files can be dealt by number. Returns INVALID_ARGUMENT if the name of
 * one ends in no number, or a worker has no file whose number modulo `workers` is its own. */
PS_MUST_USE ps_status ps_file_list_check_numbers(const ps_file_list *list, uint32_t workers);

/* Returns whether a process that loads `share` reads the training file `name`: it reads all files
 * but those whose number makes them files of another share. A file whose name ends in no number
 * (ps_data_file_number) is read by every share. */
bool ps_file_is_shared(const ps_data_share *share, const char *name);

/* Returns whether an entry is a pattern, by its characters. */
bool ps_file_is_pattern(const char *entry);

/* Returns whether a text may be an entry of a conf: a safe name or two with a slash between them,
 * of fewer than PS_DATA_FILE_NAME_MAX bytes, in which '*' and '?' stand for characters of names. */
bool ps_file_entry_is_safe(const char *entry);

/* Returns whether the file `name` is the conf's file of words, or one that was learned, or one of
 * the conf's entries is it or stands for it. */
bool ps_file_list_may_have(const ps_data_conf *conf, const char *name);

#endif
