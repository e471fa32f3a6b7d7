/* SPDX-License-Identifier: Apache-2.0 */
/* web_impl.h - a request of the page, which two threads share. Private to services/coordinator/web.
 *
 * The HTTP thread reads a request, suspends its connection and posts the request to the loop of
 * calls. That loop makes the call and resumes the connection when there is something to write. A
 * connection is suspended and resumed under web->mutex only, so that no wake-up is lost.
 */
#ifndef PS_COORDINATOR_WEB_IMPL_H
#define PS_COORDINATOR_WEB_IMPL_H

#include "services/coordinator/web/web.h"
#include "services/coordinator/web/web_curves.h"

#include "common/base/strbuf.h"
#include "common/ops/http.h"
#include "common/pki/tokens.h"
#include "common/rpc/client.h"
#include "common/rpc/loop_thread.h"
#include "common/rpc/tls.h"

#include <jansson.h>
#include <pthread.h>

typedef enum ps_web_kind { PS_WEB_UNARY, PS_WEB_EVENTS, PS_WEB_FILE, PS_WEB_CURVES } ps_web_kind;

typedef struct ps_web_request ps_web_request;
struct ps_web_request {
    ps_web *web;
    struct MHD_Connection *connection;
    ps_strbuf body; /* bytes of the request's body so far; used by the HTTP thread */
    /* the user's token; "": none. Set before the request is posted */
    char token[PS_TLS_VOUCHED_BYTES];
    /* used by the HTTP thread: the call was posted, or the answer is queued */
    bool is_routed;
    /* `kind`, `method` and `message` are set before the request is posted */
    ps_web_kind kind;
    const ps_method *method;
    ProtobufCMessage *message;

    ps_unary *unary;   /* used by the loop: the running unary call; NULL: none */
    ps_stream *stream; /* used by the loop: the running stream; NULL: none */
    bool is_reading;   /* used by the loop: the stream's next message was asked for */
    /* used by the loop, for curves of a job that is over: names of its reports */
    char *reports[PS_CURVE_PARTS];
    bool awaits_reports;         /* used by the loop: the answer waits until `reports` are read */
    ps_web_request *prev, *next; /* used by the loop: list of all requests whose calls run */
    ps_event posted;

    /* guarded by web->mutex */
    int holders; /* number of threads that have the request, 2 or 1; at 0 it is freed */
    bool is_suspended, is_posted;
    bool is_begun;   /* `code` is set and there are bytes to send */
    bool is_ended;   /* no further bytes follow */
    bool is_closed;  /* the client has disconnected */
    bool wants_more; /* the next message of the stream may be read */
    unsigned code;
    ps_strbuf out; /* bytes of the answer; the first `sent` of them were sent */
    size_t sent;
};

typedef struct ps_web_asset {
    const char *path, *type;
    const unsigned char *start, *end;
    unsigned char *packed; /* compressed by gzip; NULL: that would not be smaller */
    size_t packed_size;
    char tag[20]; /* value for If-None-Match, with quotes */
} ps_web_asset;

struct ps_web {
    ps_http http;
    struct MHD_Daemon *daemon;
    char host[PS_ADDRESS_HOST_BYTES]; /* host part of --web */
    const ps_service *service;
    ps_loop_thread *thread;
    ps_loop *loop;
    ps_tls *tls; /* NULL: HTTP, and all who reach the page count as one user */
    /* used by the loop: for calls of users, each with the user's token under TLS */
    ps_channel *channel;
    ps_channel *self;         /* used by the loop: for calls of the page itself */
    ps_timer beat;            /* used by the loop: fires ps_web_beat */
    ps_web_request *requests; /* used by the loop: all requests whose calls run */
    unsigned beats;           /* used by the loop: how often `beat` has fired */
    ps_curves *curves;        /* used by the loop: the curves of jobs */
    /* used by the loop: the call that asks for the running jobs; NULL: none runs */
    ps_unary *list;
    /* used by the loop: the stream that reads the stored events of past_id; NULL: none runs */
    ps_stream *past;
    /* used by the loop: the job whose events were read last; NULL: none yet */
    char *past_id;
    /* used by the loop: reads the reports of reader_id; NULL: none are read */
    ps_curve_reader *reader;
    ps_stream *report; /* used by the loop: the stream with the report that is being read */
    /* used by the loop: the job whose reports are read, and the names of those that are not read
     * yet */
    char *reader_id, *reports[PS_CURVE_PARTS];
    /* used by the loop: token of the user who asked first for the curves of reader_id */
    char reader_token[PS_TOKEN_BYTES];
    bool is_draining; /* used by the loop: calls of requests are cancelled, later ones at once */
    size_t bodies;    /* used by the HTTP thread: bytes of the bodies of all requests */

    pthread_mutex_t mutex; /* guards the members that follow, and those of requests that say so */
    pthread_cond_t idle;
    size_t calls; /* number of requests that the loop has */
    size_t files; /* number of files that are being sent */
    bool is_stopping;
};

/* Posts the request to the loop, which begins or continues the request's call. The caller holds
 * web->mutex. */
void ps_web_post(ps_web_request *r);

/* Begins, continues or cancels the call of a request, as the request's members say. Fired on the
 * loop after ps_web_post. */
void ps_web_posted(ps_event *event, bool ok);

/* Timer of the loop: keeps streams alive and asks for the progress of jobs. */
void ps_web_beat(ps_event *event, bool ok);

/* Cancels all calls; the call of a request that is posted later is cancelled at once. Blocks until
 * the loop has done that; the calls end later (web->calls). */
void ps_web_drain(ps_web *web);

/* Answers a request for curves with the curves as they are now, and gives up the loop's hold on the
 * request (ps_web_drop). On the loop. */
void ps_web_answer_curves(ps_web_request *r);

/* Handles a request for curves after GetJob has found the job. Answers it at once, or, for a job
 * that is over, when its reports were read. On the loop. */
void ps_web_take_job(ps_web_request *r, const Psgd__V1__Job *job);

/* Begins to read the reports for which a request waits, unless others are being read. On the
 * loop. */
void ps_web_read_reports(ps_web *web);

/* Ends the hold of one thread on the request (`holders`); frees the request when no thread holds
 * it. The caller holds web->mutex. */
void ps_web_drop(ps_web_request *r);

/* Returns an error as JSON, and sets *http_code to the HTTP status for the error's code. */
json_t *ps_web_error_json(const ps_error *error, unsigned *http_code);

/* Returns the file of the page at `path`, or NULL. */
const ps_web_asset *ps_web_asset_find(const char *path);

/* Compresses the files of the page. Call it once before any is found. */
void ps_web_assets_pack(void);

#endif
