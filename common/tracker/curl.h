/* SPDX-License-Identifier: Apache-2.0 */
/* curl.h - libcurl, loaded when the first job has a tracker.
 *
 * The library loads LDAP, Kerberos, SSH and other libraries. So the program is not linked with it.
 * Once loaded, it stays loaded. */
#ifndef PS_COMMON_TRACKER_CURL_H
#define PS_COMMON_TRACKER_CURL_H

#include "common/base/status.h"

#include <curl/curl.h>

/* The functions of the library, without curl_ in their names. */
typedef struct ps_curl {
    __typeof__(&curl_global_init) global_init;
    __typeof__(&curl_slist_append) slist_append;
    __typeof__(&curl_slist_free_all) slist_free_all;
    __typeof__(&curl_easy_init) easy_init;
    __typeof__(&curl_easy_setopt) easy_setopt;
    __typeof__(&curl_easy_getinfo) easy_getinfo;
    __typeof__(&curl_easy_strerror) easy_strerror;
    __typeof__(&curl_easy_cleanup) easy_cleanup;
    __typeof__(&curl_multi_init) multi_init;
    __typeof__(&curl_multi_setopt) multi_setopt;
    __typeof__(&curl_multi_add_handle) multi_add_handle;
    __typeof__(&curl_multi_remove_handle) multi_remove_handle;
    __typeof__(&curl_multi_perform) multi_perform;
    __typeof__(&curl_multi_info_read) multi_info_read;
    __typeof__(&curl_multi_poll) multi_poll;
    __typeof__(&curl_multi_wakeup) multi_wakeup;
    __typeof__(&curl_multi_cleanup) multi_cleanup;
} ps_curl;

/* Loads the library once and lends its functions. Fails with FAILED_PRECONDITION. Any thread. */
PS_MUST_USE ps_status ps_curl_load(const ps_curl **out);

#endif
