/* SPDX-License-Identifier: Apache-2.0 */
/* curl.c - see curl.h. */
#include "common/tracker/curl.h"

#include "common/base/library.h"

#include <pthread.h>

static ps_curl loaded;
static ps_status result;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    const ps_library_function functions[] = {
        {"curl_global_init", &loaded.global_init},
        {"curl_slist_append", &loaded.slist_append},
        {"curl_slist_free_all", &loaded.slist_free_all},
        {"curl_easy_init", &loaded.easy_init},
        {"curl_easy_setopt", &loaded.easy_setopt},
        {"curl_easy_getinfo", &loaded.easy_getinfo},
        {"curl_easy_strerror", &loaded.easy_strerror},
        {"curl_easy_cleanup", &loaded.easy_cleanup},
        {"curl_multi_init", &loaded.multi_init},
        {"curl_multi_setopt", &loaded.multi_setopt},
        {"curl_multi_add_handle", &loaded.multi_add_handle},
        {"curl_multi_remove_handle", &loaded.multi_remove_handle},
        {"curl_multi_perform", &loaded.multi_perform},
        {"curl_multi_info_read", &loaded.multi_info_read},
        {"curl_multi_poll", &loaded.multi_poll},
        {"curl_multi_wakeup", &loaded.multi_wakeup},
        {"curl_multi_cleanup", &loaded.multi_cleanup},
        {0},
    };

    result = ps_library_load("trackers", "libcurl.so.4", "libcurl4", functions);
    if (ps_is_ok(&result) && loaded.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        result = ps_fail(PS_FAILED_PRECONDITION, "trackers: libcurl.so.4 does not start");
    }
}

ps_status ps_curl_load(const ps_curl **out)
{
    pthread_once(&once, load);
    *out = &loaded;
    return result;
}
