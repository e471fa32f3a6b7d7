/* SPDX-License-Identifier: Apache-2.0 */
/* service_info.c - ListPresets and GetServerInfo: what this build can do. */
#include "common/base/log.h"
#include "common/base/tree.h"
#include "common/base/xalloc.h"
#include "common/job/kinds.h"
#include "common/job/preset.h"
#include "common/rpc/pbjson.h"
#include "services/coordinator/message.h"
#include "services/coordinator/service.h"

#include <stdlib.h>
#include <string.h>

/* --- presets -------------------------------------------------------------------- */

typedef struct preset_list {
    Psgd__V1__Preset **items;
    size_t count;
} preset_list;

static void add_preset(const ps_preset *from, void *arg)
{
    preset_list *list = arg;
    Psgd__V1__Preset *preset = ps_xmalloc(sizeof *preset);
    ProtobufCMessage *spec = NULL;
    json_t *json = NULL;
    ps_error error = {0};
    ps_status st;

    psgd__v1__preset__init(preset);
    ps_text_set(&preset->name, from->name);
    ps_text_set(&preset->summary, from->summary);
    st = ps_tree_parse(from->json, strlen(from->json), &json);
    if (ps_is_ok(&st)) {
        st = ps_pb_from_json(&psgd__v1__job_spec__descriptor, json, "spec", &error, &spec);
    }
    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_ERROR, "info", "preset %s: %s", from->name, st.text);
    }
    preset->spec = (Psgd__V1__JobSpec *)spec;
    json_decref(json);
    list->items = ps_xrealloc(list->items, (list->count + 1) * sizeof *list->items);
    list->items[list->count++] = preset;
}

void ps_serve_list_presets(void *service, const ProtobufCMessage *request, ps_payload *payload,
                           ps_call *call)
{
    Psgd__V1__ListPresetsResponse reply = PSGD__V1__LIST_PRESETS_RESPONSE__INIT;
    preset_list list = {0};

    (void)service;
    (void)request;
    (void)payload;
    ps_preset_each(add_preset, &list);
    reply.n_presets = list.count;
    reply.presets = list.items;
    ps_call_reply(call, &reply.base);
    for (size_t i = 0; i < list.count; i++) {
        psgd__v1__preset__free_unpacked(list.items[i], NULL);
    }
    free(list.items);
}

/* --- plugins -------------------------------------------------------------------- */

typedef struct plugin_list {
    const char *kind;
    Psgd__V1__Plugin **items;
    size_t count;
} plugin_list;

static Psgd__V1__PluginParam *make_param(const ps_param *from)
{
    Psgd__V1__PluginParam *param = ps_xmalloc(sizeof *param);

    psgd__v1__plugin_param__init(param);
    ps_text_set(&param->name, from->name);
    ps_text_set(&param->help, from->help ? from->help : "");
    param->default_value = from->value;
    param->min = from->min;
    param->max = from->max;
    param->integer = from->is_integer;
    return param;
}

static void add_plugin(const ps_plugin *from, void *arg)
{
    plugin_list *list = arg;
    Psgd__V1__Plugin *plugin = ps_xmalloc(sizeof *plugin);

    psgd__v1__plugin__init(plugin);
    ps_text_set(&plugin->kind, list->kind);
    ps_text_set(&plugin->name, from->name);
    ps_text_set(&plugin->summary, from->summary ? from->summary : "");
    plugin->params = ps_xcalloc(PS_PARAM_MAX, sizeof *plugin->params);
    for (const ps_param *p = from->params; p && p->name; p++) {
        plugin->params[plugin->n_params++] = make_param(p);
    }
    if (plugin->n_params == 0) {
        free(plugin->params);
        plugin->params = NULL;
    }
    list->items = ps_xrealloc(list->items, (list->count + 1) * sizeof *list->items);
    list->items[list->count++] = plugin;
}

void ps_serve_get_server_info(void *service, const ProtobufCMessage *request, ps_payload *payload,
                              ps_call *call)
{
    Psgd__V1__GetServerInfoResponse reply = PSGD__V1__GET_SERVER_INFO_RESPONSE__INIT;
    ps_coordinator *c = service;
    plugin_list list = {0};

    (void)request;
    (void)payload;
    for (size_t i = 0; i < ps_kind_count; i++) {
        list.kind = ps_kinds[i]->name;
        ps_kinds[i]->each(add_plugin, &list);
    }
    reply.version = (char *)PS_VERSION;
    reply.address = c->address;
    ps_time_set(&reply.start_time, c->start_wall_us);
    reply.max_chunk_bytes = PS_PAYLOAD_MAX;
    reply.n_plugins = list.count;
    reply.plugins = list.items;
    ps_call_reply(call, &reply.base);
    google__protobuf__timestamp__free_unpacked(reply.start_time, NULL);
    for (size_t i = 0; i < list.count; i++) {
        psgd__v1__plugin__free_unpacked(list.items[i], NULL);
    }
    free(list.items);
}
