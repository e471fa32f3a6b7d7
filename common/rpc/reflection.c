/* SPDX-License-Identifier: Apache-2.0 */
/* reflection.c - see reflection.h.
 *
 * Each answer walks the serialised descriptor set. The set has some tens of kilobytes and requests
 * are rare, so there is no index to build, own or free. The set is compiled in and well-formed; a
 * malformed field only ends the walk.
 */
#include "common/rpc/reflection.h"

#include "common/base/xalloc.h"
#include "proto/descriptors.h"

#include "common/base/shorten.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "grpc/reflection/v1alpha/reflection.pb-c.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1__ServerReflectionResponse reflection_response;
typedef Grpc__Reflection__V1alpha__ServerReflectionRequest alpha_request;
typedef Grpc__Reflection__V1alpha__ServerReflectionResponse alpha_response;

/* The two versions differ in the name of the package only, so their structs have one layout. */
_Static_assert(sizeof(reflection_request) == sizeof(alpha_request), "one layout");
_Static_assert(sizeof(reflection_response) == sizeof(alpha_response), "one layout");
_Static_assert(offsetof(reflection_request, list_services) ==
                   offsetof(alpha_request, list_services),
               "one layout");
_Static_assert(offsetof(reflection_response, error_response) ==
                   offsetof(alpha_response, error_response),
               "one layout");

/* FILES_MAX: most files of one answer; further ones are left out. The set has about twenty.
 * NAMES_MAX: most services that are listed, with the two of reflection. */
enum { FILES_MAX = 64, NAMES_MAX = 32 };

/* The reflection service of one version. */
typedef struct version {
    const ps_reflection *owner;
    const ProtobufCMessageDescriptor *response;
} version;

struct ps_reflection {
    version v1, v1alpha;
    size_t name_count;
    const char *names[NAMES_MAX];
};

/* --- the descriptor set ---------------------------------------------------- */

typedef struct span {
    const uint8_t *at;
    size_t len;
} span;

/* Field numbers of descriptor.proto. */
enum {
    SET_FILE = 1,
    NAME = 1, /* the name, in every descriptor that has one */
    FILE_PACKAGE = 2,
    FILE_DEPENDENCY = 3,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6,
    MESSAGE_FIELD = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    MESSAGE_ONEOF = 8,
    ENUM_VALUE = 2,
    SERVICE_METHOD = 2
};

static bool take_varint(span *s, uint64_t *out)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64 && s->len > 0; shift += 7) {
        uint8_t b = *s->at;

        s->at++;
        s->len--;
        v |= (uint64_t)(b & 0x7f) << shift;
        if ((b & 0x80) == 0) {
            *out = v;
            return true;
        }
    }
    return false;
}

/* Takes the next field off `s`. `value` is empty unless the field has a length (string, message).
 * Returns false at the end, or if the field is malformed. */
static bool take_field(span *s, uint32_t *tag, span *value)
{
    uint64_t key, n = 0;

    if (!take_varint(s, &key)) {
        return false;
    }
    *tag = (uint32_t)(key >> 3);
    *value = (span){NULL, 0};
    switch (key & 7) {
    case 0:
        return take_varint(s, &n);
    case 1:
        n = 8;
        break;
    case 5:
        n = 4;
        break;
    case 2:
        if (!take_varint(s, &n)) {
            return false;
        }
        *value = (span){s->at, (size_t)n};
        break;
    default:
        return false;
    }
    if (n > s->len) {
        return false;
    }
    s->at += n;
    s->len -= (size_t)n;
    return true;
}

/* Takes fields off `s` until one has this tag. Returns false if none has it. */
static bool take_tagged(span *s, uint32_t tag, span *value)
{
    uint32_t found;

    while (take_field(s, &found, value)) {
        if (found == tag) {
            return true;
        }
    }
    return false;
}

static span first_tagged(span s, uint32_t tag)
{
    span value;

    return take_tagged(&s, tag, &value) ? value : (span){NULL, 0};
}

static span span_of(const char *text)
{
    return (span){(const uint8_t *)text, strlen(text)};
}

static bool is_equal(span a, span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* Takes `name`, and a dot that follows it, off the front of `path`. Returns false if `path` does
 * not begin with this whole name. */
static bool take_name(span *path, span name)
{
    if (name.len == 0 || path->len < name.len || memcmp(path->at, name.at, name.len) != 0) {
        return false;
    }
    if (path->len > name.len) {
        if (path->at[name.len] != '.' || path->len == name.len + 1) {
            return false;
        }
        name.len++;
    }
    path->at += name.len;
    path->len -= name.len;
    return true;
}

/* Returns whether `whole` has a part with this tag (a field, value or method) that has exactly this
 * name. */
static bool has_part(span whole, uint32_t tag, span name)
{
    span part;

    while (take_tagged(&whole, tag, &part)) {
        if (is_equal(first_tagged(part, NAME), name)) {
            return true;
        }
    }
    return false;
}

/* Returns whether `path` names this enum or service, or a part of it. */
static bool declares_flat(span whole, uint32_t part_tag, span path)
{
    return take_name(&path, first_tagged(whole, NAME)) &&
           (path.len == 0 || has_part(whole, part_tag, path));
}

static bool message_declares(span message, span path)
{
    span rest = message, value;
    uint32_t tag;

    if (!take_name(&path, first_tagged(message, NAME))) {
        return false;
    }
    if (path.len == 0 || has_part(message, MESSAGE_FIELD, path) ||
        has_part(message, MESSAGE_ONEOF, path)) {
        return true;
    }
    while (take_field(&rest, &tag, &value)) {
        if ((tag == MESSAGE_NESTED && message_declares(value, path)) ||
            (tag == MESSAGE_ENUM &&
             (declares_flat(value, ENUM_VALUE, path) || has_part(value, ENUM_VALUE, path)))) {
            /* a value of an enum is named in the scope around the enum, not within it */
            return true;
        }
    }
    return false;
}

static bool file_declares(span file, span path)
{
    span package = first_tagged(file, FILE_PACKAGE), value;
    uint32_t tag;

    if ((package.len != 0 && !take_name(&path, package)) || path.len == 0) {
        return false;
    }
    while (take_field(&file, &tag, &value)) {
        if ((tag == FILE_MESSAGE && message_declares(value, path)) ||
            (tag == FILE_SERVICE && declares_flat(value, SERVICE_METHOD, path)) ||
            (tag == FILE_ENUM &&
             (declares_flat(value, ENUM_VALUE, path) || has_part(value, ENUM_VALUE, path)))) {
            return true;
        }
    }
    return false;
}

/* Returns the file with this name, or the file that declares this symbol; empty if there is
 * none. */
static span find_file(span name, bool is_symbol)
{
    span set = {ps_descriptor_set, ps_descriptor_set_len}, file;

    while (take_tagged(&set, SET_FILE, &file)) {
        if (is_symbol ? file_declares(file, name) : is_equal(first_tagged(file, NAME), name)) {
            return file;
        }
    }
    return (span){NULL, 0};
}

/* --- answers --------------------------------------------------------------- */

/* The parts of an answer while it is packed. */
typedef struct answer {
    reflection_response response;
    Grpc__Reflection__V1__ErrorResponse error;
    Grpc__Reflection__V1__FileDescriptorResponse files;
    Grpc__Reflection__V1__ExtensionNumberResponse extensions;
    Grpc__Reflection__V1__ListServiceResponse list;
    ProtobufCBinaryData file[FILES_MAX];
    char text[PS_STATUS_TEXT_BYTES];
} answer;

static void answer_error(answer *a, ps_status why)
{
    memcpy(a->text, why.text, sizeof why.text);
    a->error.error_code = (int32_t)why.code;
    a->error.error_message = a->text;
    a->response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    a->response.error_response = &a->error;
}

static void add_file(answer *a, span file)
{
    for (size_t i = 0; i < a->files.n_file_descriptor_proto; i++) {
        if (a->file[i].data == file.at) {
            return;
        }
    }
    if (file.len != 0 && a->files.n_file_descriptor_proto < FILES_MAX) {
        /* protobuf-c takes no const, but packing only reads. */
        a->file[a->files.n_file_descriptor_proto++] =
            (ProtobufCBinaryData){file.len, (uint8_t *)(uintptr_t)file.at};
    }
}

/* Answers with the file, its imports, and the imports of those, at most FILES_MAX files. */
static void answer_files(answer *a, span file)
{
    add_file(a, file);
    for (size_t i = 0; i < a->files.n_file_descriptor_proto; i++) {
        span rest = {a->file[i].data, a->file[i].len}, name;

        while (take_tagged(&rest, FILE_DEPENDENCY, &name)) {
            add_file(a, find_file(name, false));
        }
    }
    a->files.file_descriptor_proto = a->file;
    a->response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    a->response.file_descriptor_response = &a->files;
}

static void answer_found(answer *a, const char *name, bool is_symbol)
{
    span file = find_file(span_of(name), is_symbol);

    if (file.len == 0) {
        answer_error(a, ps_fail(PS_NOT_FOUND, "no %s '%s' here", is_symbol ? "symbol" : "file",
                                PS_SHORT(name, 80)));
    } else {
        answer_files(a, file);
    }
}

/* Answers that `type` has no extensions, because no message of psgd has any; or with an error if
 * there is no such type. */
static void answer_extensions(answer *a, char *type)
{
    if (find_file(span_of(type), true).len == 0) {
        answer_error(a, ps_fail(PS_NOT_FOUND, "no type '%s' here", PS_SHORT(type, 80)));
        return;
    }
    a->extensions.base_type_name = type;
    a->response.message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
    a->response.all_extension_numbers_response = &a->extensions;
}

static void answer_request(answer *a, const reflection_request *req)
{
    switch (req->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        a->response.message_response_case =
            GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
        a->response.list_services_response = &a->list;
        return;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        answer_found(a, req->file_by_filename, false);
        return;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        answer_found(a, req->file_containing_symbol, true);
        return;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
        answer_error(a, ps_fail(PS_NOT_FOUND, "no extension %d of '%s' here",
                                (int)req->file_containing_extension->extension_number,
                                PS_SHORT(req->file_containing_extension->containing_type, 80)));
        return;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
        answer_extensions(a, req->all_extension_numbers_of_type);
        return;
    default:
        answer_error(a, ps_fail(PS_INVALID_ARGUMENT, "the request asks for nothing known"));
    }
}

/* --- the call -------------------------------------------------------------- */

static void on_message(void *arg, const ProtobufCMessage *request, ps_payload *payload,
                       ps_call *call);

static void on_sent(void *arg, ps_call *call)
{
    ps_call_read(call, on_message, arg);
}

static void send_answer(const version *v, const reflection_request *req, ps_call *call)
{
    Grpc__Reflection__V1__ServiceResponse service[NAMES_MAX];
    Grpc__Reflection__V1__ServiceResponse *services[NAMES_MAX];
    answer a = {
        .response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT,
        .error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT,
        .files = GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT,
        .extensions = GRPC__REFLECTION__V1__EXTENSION_NUMBER_RESPONSE__INIT,
        .list = GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT,
    };

    for (size_t i = 0; i < v->owner->name_count; i++) {
        grpc__reflection__v1__service_response__init(&service[i]);
        service[i].name = (char *)(uintptr_t)v->owner->names[i];
        services[i] = &service[i];
        a.list.n_service = i + 1;
    }
    a.list.service = services;
    a.response.base.descriptor = v->response;
    a.response.valid_host = req->host;
    a.response.original_request = (reflection_request *)(uintptr_t)req;
    answer_request(&a, req);
    ps_call_send(call, &a.response.base, NULL, 0, on_sent, (void *)(uintptr_t)v);
}

static void on_message(void *arg, const ProtobufCMessage *request, ps_payload *payload,
                       ps_call *call)
{
    const version *v = arg;

    (void)payload;
    if (request == NULL) {
        ps_call_finish(call);
    } else {
        send_answer(v, (const reflection_request *)request, call);
    }
}

static void on_gone(void *arg, ps_call *call)
{
    /* A call of reflection has no state that would have to be freed. */
    (void)arg;
    (void)call;
}

static void handle_info(void *state, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    ps_call_on_gone(call, on_gone, state);
    on_message(state, request, payload, call);
}

static const ps_method reflection_methods[] = {
    {.name = "ServerReflectionInfo",
     .handle = handle_info,
     .may = PS_MAY_ALL,
     .streams_in = true,
     .streams_out = true,
     .bounds_unread = true},
};

ps_reflection *ps_reflection_create(const ps_service *services, size_t count)
{
    ps_reflection *r = ps_xmalloc(sizeof *r);

    assert(count + 2 <= NAMES_MAX);
    r->v1 = (version){r, &grpc__reflection__v1__server_reflection_response__descriptor};
    r->v1alpha = (version){r, &grpc__reflection__v1alpha__server_reflection_response__descriptor};
    for (size_t i = 0; i < count; i++) {
        r->names[i] = services[i].type->name;
    }
    r->names[count] = grpc__reflection__v1__server_reflection__descriptor.name;
    r->names[count + 1] = grpc__reflection__v1alpha__server_reflection__descriptor.name;
    r->name_count = count + 2;
    return r;
}

void ps_reflection_destroy(ps_reflection *reflection)
{
    free(reflection);
}

static ps_service make_service(const ProtobufCServiceDescriptor *type, version *v)
{
    return (ps_service){
        .type = type,
        .methods = reflection_methods,
        .method_count = sizeof reflection_methods / sizeof reflection_methods[0],
        .state = v,
    };
}

ps_service ps_reflection_service_v1(ps_reflection *reflection)
{
    return make_service(&grpc__reflection__v1__server_reflection__descriptor, &reflection->v1);
}

ps_service ps_reflection_service_v1alpha(ps_reflection *reflection)
{
    return make_service(&grpc__reflection__v1alpha__server_reflection__descriptor,
                        &reflection->v1alpha);
}
