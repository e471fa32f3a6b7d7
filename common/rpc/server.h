/* SPDX-License-Identifier: Apache-2.0 */
/* server.h - serves protobuf-c services on a loop.
 *
 * A service is its generated descriptor and a const table of handlers. The server does for all
 * methods what they share: paths, message types, bounded unpacking into an arena, packing, status
 * and the life of calls. serve.h starts a server that also serves health and reflection.
 *
 * Instances. A service may be served several times by one server, each time on the thread of
 * another loop. A client chooses one by the path: "/psgd.v1.ParameterService/PushGradient/1" is
 * that method of instance "1" (ps_channel_create_instance).
 *
 * Everything here is used on the loop's thread only; calls of an instance on its loop's thread.
 */
#ifndef PS_COMMON_RPC_SERVER_H
#define PS_COMMON_RPC_SERVER_H

#include "common/pki/principal.h"
#include "common/rpc/error.h"
#include "common/rpc/loop.h"
#include "common/rpc/payload.h"
#include "common/rpc/traffic.h"

#include <protobuf-c/protobuf-c.h>

typedef struct ps_server ps_server;
typedef struct ps_call ps_call; /* a call that is being answered, unary or streaming */

/* Handles a call when its (first) request message has arrived. `request` is valid until the call
 * ends (unary, server stream) or until the next ps_call_read (client stream). `payload` is NULL if
 * the type has none; it is borrowed for this callback. A stream that ends before its first message
 * is refused without a handler.
 *
 * The handler ends the call exactly once, now or later: by ps_call_reply (unary), ps_call_finish
 * (server stream) or ps_call_fail. A handler that keeps the call must call ps_call_on_gone before
 * it returns.
 */
typedef void ps_handler(void *service, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call);

/* Who may call a method, if the server speaks TLS (tls.h), as bits. In plaintext anybody may. */
typedef enum ps_may {
    PS_MAY_ADMIN = 1 << PS_PRINCIPAL_ADMIN,
    PS_MAY_SUBMITTER = 1 << PS_PRINCIPAL_SUBMITTER,
    PS_MAY_OBSERVER = 1 << PS_PRINCIPAL_OBSERVER,
    PS_MAY_NODE = 1 << PS_PRINCIPAL_NODE,
    PS_MAY_COORDINATOR = 1 << PS_PRINCIPAL_COORDINATOR,
    PS_MAY_CHANGE = PS_MAY_ADMIN | PS_MAY_SUBMITTER, /* users who may change something */
    PS_MAY_SEE = PS_MAY_CHANGE | PS_MAY_OBSERVER,    /* all users */
    PS_MAY_ALL = PS_MAY_SEE | PS_MAY_NODE | PS_MAY_COORDINATOR
} ps_may;

typedef struct ps_method {
    const char *name; /* name of the method in the .proto file */
    ps_handler *handle;
    ps_may may; /* who may call it; 0 is refused when the server starts */
    /* requests, answers are streams; protobuf-c's descriptors do not say it */
    bool streams_in, streams_out;
    /* calls of the method change something: the end of each call is reported to the service's
     * `audit` */
    bool changes;
    /* For a stream: its messages count as answers that the client has not read (unread.h), as those
     * of unary methods do. A client with too many unread bytes can neither begin a call of such a
     * method nor send a message in one. For other streams the handler has to bound them. */
    bool bounds_unread;
    /* Bound in bytes of a request without its payload (payload.h); 0 means 64 KiB. A longer
     * request fails with RESOURCE_EXHAUSTED. gRPC bounds every message to 4 MiB. */
    size_t max_bytes;
} ps_method;

/* A call that has ended, for an audit. Texts are valid for the callback. */
typedef struct ps_ended_call {
    const char *method;         /* "CancelJob" */
    const ps_principal *caller; /* who called; its kind is NONE in plaintext */
    /* serial number of the caller's certificate, or id of its token, or "" */
    const char *credential;
    const char *from;  /* the client's address, as ps_call_peer returns it */
    const char *about; /* what the handler said by ps_call_about, or "" */
    /* CANCELLED: the client left before the end; the change may have been made */
    ps_code code;
    const char *reason; /* reason of a failure, or "" */
} ps_ended_call;

typedef struct ps_service {
    const ProtobufCServiceDescriptor *type;
    const ps_method *methods;
    size_t method_count;
    void *state; /* passed to handlers; not owned */
    /* (optional) Called once for each call of a method that `changes`, also if the call is
     * refused. */
    void (*audit)(void *state, const ps_ended_call *end);

    /* (optional) Decides before the handler: returns true if the call may go to it, or ends the
     * call and returns false. */
    bool (*admit)(void *state, ps_call *call);

    /* Name of an instance, and the loop on whose thread its handlers are called; that loop must run
     * until the server has stopped. NULL for both: the service without an instance, on the server's
     * loop. Health and reflection list only services without an instance. */
    const char *instance;
    ps_loop *loop;
} ps_service;

/* Services that a server adds to those of its caller, such as health, and functions for them. The
 * server destroys them with itself, also if it cannot start. */
typedef struct ps_server_own {
    const ps_service *services; /* (count) */
    size_t count;
    void (*set_serving)(void *arg, const char *service, bool serving);
    void (*stop)(void *arg); /* called when the server stops; ends calls that would delay that */
    void (*destroy)(void *arg);
    void *arg;
} ps_server_own;

/* Starts a server that listens on `address` and serves when the loop runs. "127.0.0.1:0" means
 * any port. `services` and their tables must outlive the server. Fails with FAILED_PRECONDITION
 * if a table lacks a method of its descriptor or does not say who may call one, with UNAVAILABLE if
 * the address cannot be bound. */
PS_MUST_USE ps_status ps_server_start(ps_loop *loop, const ps_service *services, size_t count,
                                      const ps_server_own *own, const char *address,
                                      ps_server **out);

/* Returns the port on which the server listens. */
int ps_server_port(const ps_server *server);

/* Sets the status that health reports for `service` ("" is the whole server), by own->set_serving.
 * Every service starts as SERVING. */
void ps_server_set_serving(ps_server *server, const char *service, bool serving);

/* Stops and frees the server, then fires `done`. Health reports NOT_SERVING and new calls are
 * refused at once. Running calls may end by themselves; those still running after `grace_us`
 * microseconds are cancelled. Aborts if a handler keeps a call that is over. */
void ps_server_stop(ps_server *server, int64_t grace_us, ps_event *done);

/* Registers `gone`. It is called once if the client hangs up, the deadline passes, a message is
 * malformed or the server stops before the call has ended. `gone` must forget `call`, which is
 * freed when `gone` returns. */
void ps_call_on_gone(ps_call *call, void (*gone)(void *arg, ps_call *call), void *arg);

/* Ends a unary call. `reply` is packed before this returns. A long answer to a client with too many
 * unread ones (unread.h) is not sent: the call ends with RESOURCE_EXHAUSTED. */
void ps_call_reply(ps_call *call, const ProtobufCMessage *reply);

/* Ends any call with a failure; the reason is the name of the status code. */
void ps_call_fail(ps_call *call, ps_status why);

/* Ends any call with a failure that has a reason, metadata or violations. */
void ps_call_fail_error(ps_call *call, const ps_error *why);

/* --- streams in ------------------------------------------------------------ */

/* Receives the message of one ps_call_read. `message` is NULL when the client has sent its last
 * one. */
typedef void ps_call_message_fn(void *arg, const ProtobufCMessage *message, ps_payload *payload,
                                ps_call *call);

/* Asks for exactly one further message; `on_message` is called once for it. Not asking is the
 * flow control. A message that is too long or malformed ends the call (`gone`). gRPC cannot
 * always tell a last message from a hang-up, so messages must carry what is needed to know that
 * all have arrived. */
void ps_call_read(ps_call *call, ps_call_message_fn *on_message, void *arg);

/* --- streams out ----------------------------------------------------------- */

/* Sends one message; `head` is packed before this returns. The next message may be sent after
 * `on_sent`, which is called when flow control has let the message out. The client's answer may
 * come earlier. on_sent is not called after `gone`, nor if the call has been ended meanwhile;
 * the end then waits for the message. */
void ps_call_send(ps_call *call, const ProtobufCMessage *head, const ps_piece *pieces,
                  size_t piece_count, void (*on_sent)(void *arg, ps_call *call), void *arg);

/* Sends one message and asks for one further message with a single system call. (A read opens a
 * window for the client, which would cost a system call of its own at both ends.) No other message
 * may be sent before `on_message`. */
void ps_call_send_and_read(ps_call *call, const ProtobufCMessage *head, const ps_piece *pieces,
                           size_t piece_count, ps_call_message_fn *on_message, void *arg);

/* Returns whether a message may be sent: none is in flight and the call has not ended. */
bool ps_call_can_send(const ps_call *call);

/* Ends a server stream with OK after the message in flight. */
void ps_call_finish(ps_call *call);

/* Says what the call is about, such as the id of a job; for the audit. Cut after 95 bytes. */
void ps_call_about(ps_call *call, const char *what);

/* Returns the address of the client, such as "ipv4:127.0.0.1:40312". Valid as long as the call. */
const char *ps_call_peer(ps_call *call);

/* Returns whom the client's certificate or token names; its kind is NONE in plaintext. Valid as
 * long as the call. */
const ps_principal *ps_call_caller(const ps_call *call);

/* Returns the serial number of the client's certificate, or the id of its token, or "" in
 * plaintext. Valid as long as the call. */
const char *ps_call_credential(const ps_call *call);

/* Returns when the client's certificate ends, in seconds since 1970; 0: the client has no
 * certificate. */
int64_t ps_call_expires(const ps_call *call);

/* Adds the call's messages so far, and those to come, to `traffic`, which must live until the call
 * has ended. */
void ps_call_count(ps_call *call, ps_traffic *traffic);

#endif
