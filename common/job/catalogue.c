/* SPDX-License-Identifier: Apache-2.0 */
/* catalogue.c - see catalogue.h. */
#include "common/job/catalogue.h"

#include "common/base/xalloc.h"
#include "common/job/kinds.h"
#include "common/job/preset.h"
#include "common/job/spec.h"
#include "common/nn/blas.h"

/* --- presets -------------------------------------------------------------------- */

static void add_preset(const ps_preset *from, void *arg)
{
    Psgd__V1__ListPresetsResponse *list = arg;
    Psgd__V1__Preset *preset = ps_xmalloc(sizeof *preset);

    psgd__v1__preset__init(preset);
    ps_spec_set(&preset->name, from->name);
    ps_spec_set(&preset->summary, from->summary);
    preset->spec = ps_spec_of_preset(from->json);
    list->presets = ps_xrealloc(list->presets, (list->n_presets + 1) * sizeof *list->presets);
    list->presets[list->n_presets++] = preset;
}

Psgd__V1__ListPresetsResponse *ps_catalogue_presets(void)
{
    Psgd__V1__ListPresetsResponse *list = ps_xmalloc(sizeof *list);

    psgd__v1__list_presets_response__init(list);
    ps_preset_each(add_preset, list);
    return list;
}

/* --- plugins -------------------------------------------------------------------- */

typedef struct adding {
    Psgd__V1__GetServerInfoResponse *info;
    const char *kind;
} adding;

static Psgd__V1__PluginParam *make_param(const ps_param *from)
{
    Psgd__V1__PluginParam *param = ps_xmalloc(sizeof *param);

    psgd__v1__plugin_param__init(param);
    ps_spec_set(&param->name, from->name);
    ps_spec_set(&param->help, from->help != NULL ? from->help : "");
    param->default_value = from->value;
    param->min = from->min;
    param->max = from->max;
    param->integer = from->is_integer;
    return param;
}

static void add_plugin(const ps_plugin *from, void *arg)
{
    const adding *a = arg;
    Psgd__V1__GetServerInfoResponse *info = a->info;
    Psgd__V1__Plugin *plugin = ps_xmalloc(sizeof *plugin);

    psgd__v1__plugin__init(plugin);
    ps_spec_set(&plugin->kind, a->kind);
    ps_spec_set(&plugin->name, from->name);
    ps_spec_set(&plugin->summary, from->summary != NULL ? from->summary : "");
    for (const ps_param *p = from->params; p != NULL && p->name != NULL; p++) {
        plugin->params =
            ps_xrealloc(plugin->params, (plugin->n_params + 1) * sizeof *plugin->params);
        plugin->params[plugin->n_params++] = make_param(p);
    }
    info->plugins = ps_xrealloc(info->plugins, (info->n_plugins + 1) * sizeof *info->plugins);
    info->plugins[info->n_plugins++] = plugin;
}

Psgd__V1__GetServerInfoResponse *ps_catalogue_info(void)
{
    Psgd__V1__GetServerInfoResponse *info = ps_xmalloc(sizeof *info);
    char kernels[PS_NN_KERNELS_BYTES];

    psgd__v1__get_server_info_response__init(info);
    ps_spec_set(&info->version, PS_VERSION);
    ps_spec_set(&info->kernels, ps_nn_kernels(kernels));
    for (size_t i = 0; i < ps_kind_count; i++) {
        adding a = {info, ps_kinds[i]->name};

        ps_kinds[i]->each(add_plugin, &a);
    }
    return info;
}
