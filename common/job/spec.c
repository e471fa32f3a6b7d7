/* SPDX-License-Identifier: Apache-2.0 */
/* spec.c - see spec.h. */
#include "common/job/spec.h"

#include "common/base/xalloc.h"
#include "common/data/assign.h"
#include "common/job/numbers.h"
#include "common/job/preset.h"
#include "common/mesh/mesh.h"
#include "common/rpc/pbjson.h"
#include "common/update/update.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void ps_spec_free(Psgd__V1__JobSpec *spec)
{
    if (spec != NULL) {
        psgd__v1__job_spec__free_unpacked(spec, NULL);
    }
}

void ps_choice_free(Psgd__V1__Choice *choice)
{
    if (choice != NULL) {
        psgd__v1__choice__free_unpacked(choice, NULL);
    }
}

Psgd__V1__JobSpec *ps_spec_copy(const Psgd__V1__JobSpec *spec)
{
    size_t n = psgd__v1__job_spec__get_packed_size(spec);
    uint8_t *bytes = ps_xmalloc(n);
    Psgd__V1__JobSpec *copy;

    psgd__v1__job_spec__pack(spec, bytes);
    copy = psgd__v1__job_spec__unpack(NULL, n, bytes);
    assert(copy != NULL); /* it was packed above */
    free(bytes);
    return copy;
}

void ps_spec_set(char **field, const char *text)
{
    char *copy = ps_xstrdup(text); /* `text` may lie within the old text */

    if (*field != NULL && *field != (char *)protobuf_c_empty_string) {
        free(*field);
    }
    *field = copy;
}

static Psgd__V1__Choice *new_choice(void)
{
    Psgd__V1__Choice *choice = ps_xmalloc(sizeof *choice);

    psgd__v1__choice__init(choice);
    return choice;
}

static void complete_choice(Psgd__V1__Choice **choice)
{
    if (*choice == NULL) {
        *choice = new_choice();
    }
}

void ps_spec_complete(Psgd__V1__JobSpec *spec)
{
    if (spec->model == NULL) {
        spec->model = ps_xmalloc(sizeof *spec->model);
        psgd__v1__model_spec__init(spec->model);
    }
    if (spec->data == NULL) {
        spec->data = ps_xmalloc(sizeof *spec->data);
        psgd__v1__data_spec__init(spec->data);
    }
    if (spec->optimizer == NULL) {
        spec->optimizer = ps_xmalloc(sizeof *spec->optimizer);
        psgd__v1__optimizer_spec__init(spec->optimizer);
    }
    if (spec->codec == NULL) {
        spec->codec = ps_xmalloc(sizeof *spec->codec);
        psgd__v1__codec_spec__init(spec->codec);
    }
    if (spec->timeouts == NULL) {
        spec->timeouts = ps_xmalloc(sizeof *spec->timeouts);
        psgd__v1__timeout_spec__init(spec->timeouts);
    }
    if (spec->recovery == NULL) {
        spec->recovery = ps_xmalloc(sizeof *spec->recovery);
        psgd__v1__recovery_spec__init(spec->recovery);
    }
    complete_choice(&spec->model->table);
    complete_choice(&spec->assignment);
    complete_choice(&spec->optimizer->rule);
    complete_choice(&spec->optimizer->schedule);
    complete_choice(&spec->optimizer->compensation_schedule);
    complete_choice(&spec->optimizer->clip);
    complete_choice(&spec->update);
    complete_choice(&spec->consistency);
    complete_choice(&spec->straggler);
    complete_choice(&spec->exchange);
    complete_choice(&spec->codec->up);
    complete_choice(&spec->codec->down);
}

bool ps_assign_has_redundancy(const char *name)
{
    const ps_assign *assign = ps_assign_find(name);

    return assign != NULL && ps_param_find(assign->params, "redundancy") >= 0;
}

/* Takes the name of `under` if `choice` has none, and adds the numbers of `under` that `choice`
 * does not give. If `choice` names another plugin, adds nothing, unless both are assignments with
 * the number `redundancy`. */
static void underlay_choice(Psgd__V1__Choice *choice, const Psgd__V1__Choice *under)
{
    if (choice->name[0] == '\0') {
        ps_spec_set(&choice->name, under->name);
    } else if (strcmp(choice->name, under->name) != 0 &&
               !(ps_assign_has_redundancy(choice->name) && ps_assign_has_redundancy(under->name))) {
        return;
    }
    ps_numbers_underlay(&choice->base, &under->base);
}

static void underlay_message(ProtobufCMessage **over, ProtobufCMessage **under);

/* Moves from `under` what `model` leaves out. Moves only the loss if `model` is given as layers,
 * and nothing if it is given as variables (foreign) or as another preset. */
static void underlay_model(Psgd__V1__ModelSpec *model, Psgd__V1__ModelSpec *under)
{
    if (model->n_foreign > 0) {
        return;
    }
    if (model->n_layers == 0 && model->preset[0] != '\0' &&
        strcmp(model->preset, under->preset) != 0) {
        return;
    }
    if (model->n_layers == 0) {
        underlay_message((ProtobufCMessage **)(void *)&model->table,
                         (ProtobufCMessage **)(void *)&under->table);
    }
    if (model->n_layers == 0 && model->preset[0] == '\0' && model->n_widths == 0 &&
        under->n_layers > 0) {
        model->n_layers = under->n_layers;
        model->layers = under->layers;
        under->n_layers = 0;
        under->layers = NULL;
    }
    if (model->n_layers == 0) {
        if (model->preset[0] == '\0') {
            ps_spec_set(&model->preset, under->preset);
        }
        if (strcmp(model->preset, under->preset) == 0) {
            ps_numbers_underlay(&model->base, &under->base);
        }
        if (model->n_widths == 0) {
            model->n_widths = under->n_widths;
            model->widths = under->widths;
            under->n_widths = 0;
            under->widths = NULL;
        }
        if (model->activation[0] == '\0') {
            ps_spec_set(&model->activation, under->activation);
        }
    }
    if (model->loss[0] == '\0') {
        ps_spec_set(&model->loss, under->loss);
    }
}

static size_t scalar_bytes(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_ENUM:
        return 4;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        break;
    }
    return 0;
}

static void swap_bytes(void *a, void *b, size_t n)
{
    uint8_t spare[16];

    assert(n <= sizeof spare);
    memcpy(spare, a, n);
    memcpy(a, b, n);
    memcpy(b, spare, n);
}

static void underlay(ProtobufCMessage *over, ProtobufCMessage *under);

/* Returns whether both are data sets (DataSpec), and `over` names another one than `under`.
 * Numbers, files and limits of `under` then do not fit `over`. */
static bool is_another_set(const ProtobufCMessage *over, const ProtobufCMessage *under)
{
    const Psgd__V1__DataSpec *data = (const Psgd__V1__DataSpec *)over;

    return over->descriptor == &psgd__v1__data_spec__descriptor && data->name[0] != '\0' &&
           strcmp(data->name, ((const Psgd__V1__DataSpec *)under)->name) != 0;
}

static void underlay_message(ProtobufCMessage **over, ProtobufCMessage **under)
{
    if (*under == NULL) {
        return;
    }
    if (*over == NULL) {
        *over = *under;
        *under = NULL;
    } else if ((*over)->descriptor == &psgd__v1__choice__descriptor) {
        underlay_choice((Psgd__V1__Choice *)*over, (const Psgd__V1__Choice *)*under);
    } else if ((*over)->descriptor == &psgd__v1__model_spec__descriptor) {
        underlay_model((Psgd__V1__ModelSpec *)*over, (Psgd__V1__ModelSpec *)*under);
    } else if (is_another_set(*over, *under)) {
        return;
    } else {
        underlay(*over, *under);
    }
}

/* Moves each field that `over` leaves out from `under` to `over`. 0 and empty count as left out, as
 * in proto3. */
static void underlay(ProtobufCMessage *over, ProtobufCMessage *under)
{
    static const uint8_t zero[8];

    for (unsigned i = 0; i < over->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &over->descriptor->fields[i];
        uint8_t *o = (uint8_t *)over + field->offset, *u = (uint8_t *)under + field->offset;

        assert((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0); /* JobSpec has no oneofs */
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            size_t *n = (size_t *)(void *)((uint8_t *)over + field->quantifier_offset);

            if (*n == 0) {
                swap_bytes(n, (uint8_t *)under + field->quantifier_offset, sizeof *n);
                swap_bytes(o, u, sizeof(void *));
            }
        } else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
            underlay_message((ProtobufCMessage **)(void *)o, (ProtobufCMessage **)(void *)u);
        } else if (field->type == PROTOBUF_C_TYPE_STRING) {
            if (**(char **)(void *)o == '\0') {
                swap_bytes(o, u, sizeof(char *));
            }
        } else if (memcmp(o, zero, scalar_bytes(field->type)) == 0) {
            memcpy(o, u, scalar_bytes(field->type));
        }
    }
}

void ps_spec_underlay(Psgd__V1__JobSpec *spec, Psgd__V1__JobSpec *under)
{
    underlay(&spec->base, &under->base);
}

void ps_spec_apply_preset(Psgd__V1__JobSpec *spec)
{
    const ps_preset *preset = spec->preset[0] == '\0' ? NULL : ps_preset_find(spec->preset);
    Psgd__V1__JobSpec *under;

    if (preset != NULL) {
        under = ps_spec_of_preset(preset->json);
        if (spec->max_steps > 0 || spec->max_seconds > 0) {
            /* the job has a bound of steps or time: the preset's epochs must not end it earlier */
            under->epochs = 0;
        }
        ps_spec_underlay(spec, under);
        ps_spec_free(under);
    }
}

bool ps_spec_steps_locally(const Psgd__V1__JobSpec *spec)
{
    Psgd__V1__JobSpec *whole = ps_spec_copy(spec);
    const ps_update *update = NULL;

    ps_spec_apply_preset(whole);
    if (whole->update != NULL) {
        update = ps_update_find(whole->update->name);
    }
    ps_spec_free(whole);
    return update != NULL && update->local != NULL && !update->local->sends_gradients;
}

bool ps_spec_has_servers(const Psgd__V1__JobSpec *spec)
{
    Psgd__V1__JobSpec *whole = ps_spec_copy(spec);
    bool is_mesh;

    ps_spec_apply_preset(whole);
    is_mesh = whole->exchange != NULL && ps_mesh_find(whole->exchange->name) != NULL;
    ps_spec_free(whole);
    return !is_mesh;
}

Psgd__V1__JobSpec *ps_spec_of_preset(const char *json)
{
    ProtobufCMessage *message = NULL;
    ps_error error = {.status = ps_ok()};
    json_t *tree = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
    ps_status st;

    assert(tree != NULL);
    st = ps_pb_from_json(&psgd__v1__job_spec__descriptor, tree, "preset", &error, &message);
    assert(ps_is_ok(&st));
    json_decref(tree);
    return (Psgd__V1__JobSpec *)message;
}
