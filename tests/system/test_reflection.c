/* SPDX-License-Identifier: Apache-2.0 */
/* test_reflection.c - both versions of reflection of a real server, over loopback.
 *
 * The tests speak v1 and turn messages into the other version by way of the
 * wire, so each test runs once for each version.
 */
#include "tests/support/cmocka_all.h"
#include "tests/support/kinds_world.h"

#include "grpc/reflection/v1/reflection.pb-c.h"
#include "grpc/reflection/v1alpha/reflection.pb-c.h"

#include <stdlib.h>
#include <string.h>

#define CASE(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name
#define ASK(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name

typedef Grpc__Reflection__V1__ServerReflectionRequest request_v1;
typedef Grpc__Reflection__V1__ServerReflectionResponse response_v1;

static const ProtobufCServiceDescriptor *const versions[] = {
    &grpc__reflection__v1__server_reflection__descriptor,
    &grpc__reflection__v1alpha__server_reflection__descriptor,
};
enum { VERSIONS = 2, ANSWER_MAX = 1 << 20 };

typedef struct talk {
    kinds_world w;
    const ProtobufCServiceDescriptor *type;
    ps_stream *stream;
    response_v1 *response; /* the last one */
    bool arrived, sent, over;
    ps_code code;
} talk;

static ProtobufCMessage *convert(const ProtobufCMessage *message,
                                 const ProtobufCMessageDescriptor *type)
{
    uint8_t *bytes = malloc(protobuf_c_message_get_packed_size(message) + 1);
    size_t len = protobuf_c_message_pack(message, bytes);
    ProtobufCMessage *copy = protobuf_c_message_unpack(type, NULL, len, bytes);

    free(bytes);
    return copy;
}

static void drop_response(talk *t)
{
    if (t->response != NULL) {
        protobuf_c_message_free_unpacked(&t->response->base, NULL);
        t->response = NULL;
    }
}

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    talk *t = arg;

    (void)payload;
    drop_response(t);
    t->response =
        (response_v1 *)convert(head, &grpc__reflection__v1__server_reflection_response__descriptor);
    t->arrived = true;
}

static void on_sent(void *arg)
{
    talk *t = arg;

    t->sent = true;
}

static void on_end(void *arg, const ps_error *error)
{
    talk *t = arg;

    t->code = error->status.code;
    t->over = true;
}

static const ps_stream_events events = {
    .on_message = on_message, .on_sent = on_sent, .on_end = on_end};

static void talk_begin(talk *t, size_t version)
{
    memset(t, 0, sizeof *t);
    kinds_world_begin(&t->w);
    t->type = versions[version];
    t->stream = ps_stream_open(t->w.channel, t->type, "ServerReflectionInfo", TIMEOUT_US,
                               ANSWER_MAX, &events, t);
}

/* The caller has sent its last: the stream ends well. */
static void talk_end(talk *t)
{
    ps_stream_half_close(t->stream);
    kinds_world_pump(&t->w, &t->over);
    assert_int_equal(t->code, PS_OK);
    drop_response(t);
    kinds_world_end(&t->w);
}

static const response_v1 *say(talk *t, const request_v1 *request)
{
    ProtobufCMessage *own = convert(&request->base, t->type->methods[0].input);
    const response_v1 *r;

    t->arrived = t->sent = false;
    ps_stream_send(t->stream, own, NULL, 0);
    protobuf_c_message_free_unpacked(own, NULL);
    ps_stream_read(t->stream);
    kinds_world_pump(&t->w, &t->sent); /* may come after the answer */
    kinds_world_pump(&t->w, &t->arrived);
    r = t->response;
    /* Every answer says what it is the answer to. */
    assert_string_equal(r->valid_host, request->host);
    assert_non_null(r->original_request);
    assert_string_equal(r->original_request->host, request->host);
    assert_int_equal(r->original_request->message_request_case, request->message_request_case);
    return r;
}

static const response_v1 *ask(talk *t, int what, const char *text)
{
    request_v1 request = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
    char copy[128], host[] = "somewhere";

    strcpy(copy, text);
    request.host = host;
    request.message_request_case =
        (Grpc__Reflection__V1__ServerReflectionRequest__MessageRequestCase)what;
    request.list_services = copy; /* all members of the union are texts here */
    return say(t, &request);
}

static void assert_error(const response_v1 *r, int32_t code)
{
    assert_int_equal(r->message_response_case, CASE(ERROR_RESPONSE));
    assert_int_equal(r->error_response->error_code, code);
    assert_true(strlen(r->error_response->error_message) > 0);
}

/* A file's name is the first field of its descriptor. */
static bool is_file(const ProtobufCBinaryData *file, const char *name)
{
    size_t len = strlen(name);

    return file->len > len + 2 && file->data[0] == 0x0a && file->data[1] == len &&
           memcmp(file->data + 2, name, len) == 0;
}

static size_t count_file(const response_v1 *r, const char *name)
{
    size_t n = 0;

    assert_int_equal(r->message_response_case, CASE(FILE_DESCRIPTOR_RESPONSE));
    for (size_t i = 0; i < r->file_descriptor_response->n_file_descriptor_proto; i++) {
        n += is_file(&r->file_descriptor_response->file_descriptor_proto[i], name);
    }
    return n;
}

static void assert_first_file(const response_v1 *r, const char *name)
{
    assert_int_equal(r->message_response_case, CASE(FILE_DESCRIPTOR_RESPONSE));
    assert_true(is_file(&r->file_descriptor_response->file_descriptor_proto[0], name));
}

static void services_of_this_server_are_listed(void **state)
{
    static const char *const want[] = {"psgd.test.KindsService", "grpc.health.v1.Health",
                                       "grpc.reflection.v1.ServerReflection",
                                       "grpc.reflection.v1alpha.ServerReflection"};

    (void)state;
    for (size_t v = 0; v < VERSIONS; v++) {
        talk t;
        const response_v1 *r;

        talk_begin(&t, v);
        r = ask(&t, ASK(LIST_SERVICES), "");
        assert_int_equal(r->message_response_case, CASE(LIST_SERVICES_RESPONSE));
        assert_int_equal(r->list_services_response->n_service, 4);
        for (size_t i = 0; i < 4; i++) {
            assert_string_equal(r->list_services_response->service[i]->name, want[i]);
        }
        talk_end(&t);
    }
}

static void a_file_comes_first_and_brings_its_imports_once(void **state)
{
    static const char *const want[] = {"psgd/v1/coordinator.proto", "psgd/v1/membership.proto",
                                       "psgd/v1/job.proto", "psgd/v1/spec.proto",
                                       "google/protobuf/timestamp.proto"};

    (void)state;
    for (size_t v = 0; v < VERSIONS; v++) {
        talk t;
        const response_v1 *r;

        talk_begin(&t, v);
        r = ask(&t, ASK(FILE_BY_FILENAME), want[0]);
        assert_first_file(r, want[0]);
        assert_int_equal(r->file_descriptor_response->n_file_descriptor_proto, 5);
        for (size_t i = 0; i < 5; i++) {
            assert_int_equal(count_file(r, want[i]), 1);
        }
        talk_end(&t);
    }
}

static void symbols_of_every_sort_are_found(void **state)
{
    static const char *const want[][2] = {
        {"psgd.v1.CoordinatorService", "psgd/v1/coordinator.proto"},
        {"psgd.v1.CoordinatorService.SubmitJob", "psgd/v1/coordinator.proto"},
        {"psgd.v1.ParameterService.PushGradient", "psgd/v1/parameter.proto"},
        {"psgd.v1.JobSpec", "psgd/v1/spec.proto"},
        {"psgd.v1.JobSpec.block_size", "psgd/v1/spec.proto"},
        {"psgd.v1.Choice.ParamsEntry", "psgd/v1/spec.proto"},
        {"psgd.v1.Choice.ParamsEntry.key", "psgd/v1/spec.proto"},
        {"psgd.v1.PreCommitRequest.package", "psgd/v1/node.proto"}, /* a oneof */
        {"psgd.v1.JobState", "psgd/v1/job.proto"},
        {"psgd.v1.JobState.JOB_STATE_DONE", "psgd/v1/job.proto"},
        {"psgd.v1.JOB_STATE_DONE", "psgd/v1/job.proto"}, /* its true name */
        {"google.protobuf.Timestamp", "google/protobuf/timestamp.proto"},
        {"google.rpc.BadRequest.FieldViolation", "google/rpc/error_details.proto"},
        {"grpc.health.v1.HealthCheckResponse.ServingStatus", "grpc/health/v1/health.proto"},
        {"grpc.health.v1.HealthCheckResponse.SERVING", "grpc/health/v1/health.proto"},
        {"grpc.reflection.v1.ServerReflection", "grpc/reflection/v1/reflection.proto"},
        {"grpc.reflection.v1alpha.ServerReflection", "grpc/reflection/v1alpha/reflection.proto"},
    };

    (void)state;
    for (size_t v = 0; v < VERSIONS; v++) {
        talk t;

        talk_begin(&t, v);
        for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
            assert_first_file(ask(&t, ASK(FILE_CONTAINING_SYMBOL), want[i][0]), want[i][1]);
        }
        talk_end(&t);
    }
}

static void what_is_not_there_is_an_answer_and_not_the_end(void **state)
{
    static const char *const symbols[] = {"",
                                          ".",
                                          "psgd",
                                          "psgd.v1",
                                          "psgd.v1.",
                                          "psgd.v1.JobSpe",
                                          "JobSpec",
                                          "psgd.v1.JobSpec.",
                                          "nobody",
                                          "psgd.v1.JobSpecs",
                                          "psgd.v1x.JobSpec",
                                          "psgd.v1.CoordinatorService.SubmitJob.x",
                                          "psgd.v1.JobSpec.block_size.x"};

    (void)state;
    for (size_t v = 0; v < VERSIONS; v++) {
        talk t;

        talk_begin(&t, v);
        assert_error(ask(&t, ASK(FILE_BY_FILENAME), "psgd/v1/nobody.proto"), PS_NOT_FOUND);
        assert_error(ask(&t, ASK(FILE_BY_FILENAME), ""), PS_NOT_FOUND);
        for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
            assert_error(ask(&t, ASK(FILE_CONTAINING_SYMBOL), symbols[i]), PS_NOT_FOUND);
        }
        assert_first_file(ask(&t, ASK(FILE_BY_FILENAME), "psgd/v1/codec.proto"),
                          "psgd/v1/codec.proto");
        talk_end(&t);
    }
}

static void a_request_for_nothing_is_answered(void **state)
{
    (void)state;
    for (size_t v = 0; v < VERSIONS; v++) {
        request_v1 request = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
        talk t;

        talk_begin(&t, v);
        assert_error(say(&t, &request), PS_INVALID_ARGUMENT);
        talk_end(&t);
    }
}

static void there_are_no_extensions(void **state)
{
    (void)state;
    for (size_t v = 0; v < VERSIONS; v++) {
        request_v1 request = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
        Grpc__Reflection__V1__ExtensionRequest extension =
            GRPC__REFLECTION__V1__EXTENSION_REQUEST__INIT;
        char type[] = "psgd.v1.JobSpec";
        const response_v1 *r;
        talk t;

        talk_begin(&t, v);
        r = ask(&t, ASK(ALL_EXTENSION_NUMBERS_OF_TYPE), type);
        assert_int_equal(r->message_response_case, CASE(ALL_EXTENSION_NUMBERS_RESPONSE));
        assert_string_equal(r->all_extension_numbers_response->base_type_name, type);
        assert_int_equal(r->all_extension_numbers_response->n_extension_number, 0);
        assert_error(ask(&t, ASK(ALL_EXTENSION_NUMBERS_OF_TYPE), "psgd.v1.Nobody"), PS_NOT_FOUND);
        extension.containing_type = type;
        extension.extension_number = 1000;
        request.message_request_case = ASK(FILE_CONTAINING_EXTENSION);
        request.file_containing_extension = &extension;
        assert_error(say(&t, &request), PS_NOT_FOUND);
        talk_end(&t);
    }
}

static void a_caller_that_hangs_up_in_between_does_no_harm(void **state)
{
    (void)state;
    for (size_t v = 0; v < VERSIONS; v++) {
        talk t;

        talk_begin(&t, v);
        ask(&t, ASK(LIST_SERVICES), "*");
        ps_stream_cancel(t.stream);
        kinds_world_pump(&t.w, &t.over);
        assert_int_equal(t.code, PS_CANCELLED);
        drop_response(&t);
        kinds_world_end(&t.w);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(services_of_this_server_are_listed),
        cmocka_unit_test(a_file_comes_first_and_brings_its_imports_once),
        cmocka_unit_test(symbols_of_every_sort_are_found),
        cmocka_unit_test(what_is_not_there_is_an_answer_and_not_the_end),
        cmocka_unit_test(a_request_for_nothing_is_answered),
        cmocka_unit_test(there_are_no_extensions),
        cmocka_unit_test(a_caller_that_hangs_up_in_between_does_no_harm),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
