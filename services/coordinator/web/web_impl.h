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
    ps_strbuf body;                   /* HTTP thread */
    char token[PS_TLS_VOUCHED_BYTES]; /* of the user; "": none. Set before the request is posted */
    bool is_routed;                   /* HTTP thread: the call is made, or the answer is queued */
    ps_web_kind kind;                 /* this and the next two: set before the request is posted */
    const ps_method *method;
    ProtobufCMessage *message;

    ps_unary *unary;               /* loop: the call, if it runs */
    ps_stream *stream;             /* loop: the same of a stream */
    bool is_reading;               /* loop: the stream's next message is asked for */
    char *reports[PS_CURVE_PARTS]; /* loop: of curves, the reports of a job that is over */
    bool awaits_reports;           /* loop: until they are read */
    ps_web_request *prev, *next;   /* loop: all requests whose calls run */
    ps_event posted;

    /* under web->mutex */
    int holders; /* threads that have the request: 2, 1; freed at 0 */
    bool is_suspended, is_posted;
    bool is_begun;   /* `code` and the first bytes are there */
    bool is_ended;   /* nothing follows */
    bool is_closed;  /* the client has gone */
    bool wants_more; /* the stream may be read on */
    unsigned code;
    ps_strbuf out; /* bytes to send, of which `sent` are sent */
    size_t sent;
};

typedef struct ps_web_asset {
    const char *path, *type;
    const unsigned char *start, *end;
    unsigned char *packed; /* by gzip; NULL: not smaller */
    size_t packed_size;
    char tag[20]; /* for If-None-Match, with quotes */
} ps_web_asset;

struct ps_web {
    ps_http http;
    struct MHD_Daemon *daemon;
    char host[PS_ADDRESS_HOST_BYTES]; /* of --web */
    const ps_service *service;
    ps_loop_thread *thread;
    ps_loop *loop;
    ps_tls *tls;              /* NULL: HTTP, and all who reach it are one user */
    ps_channel *channel;      /* loop: for users' calls; under TLS each brings its token */
    ps_channel *self;         /* loop: for the page's own */
    ps_timer beat;            /* loop */
    ps_web_request *requests; /* loop */
    unsigned beats;           /* loop */
    ps_curves *curves;        /* loop */
    ps_unary *list;           /* loop: asks for the running jobs; NULL: not now */
    ps_stream *past;          /* loop: reads the stored events of past_id; NULL: not now */
    char *past_id;            /* loop: the job whose events were read last; NULL: none yet */
    ps_curve_reader *reader;  /* loop: reads the reports of reader_id; NULL: not now */
    ps_stream *report;        /* loop: brings the present one */
    char *reader_id, *reports[PS_CURVE_PARTS]; /* loop: the job, and its reports that are left */
    char reader_token[PS_TOKEN_BYTES];         /* loop: of the user who asked first */
    bool is_draining;                          /* loop: no call is made any more */
    size_t bodies; /* HTTP thread: bytes of the bodies of all requests */

    pthread_mutex_t mutex; /* guards the members below, and those of requests */
    pthread_cond_t idle;
    size_t calls; /* requests that the loop has */
    size_t files; /* files that are being sent */
    bool is_stopping;
};

/* Posts the request to the loop, which begins its call. Under the mutex. */
void ps_web_post(ps_web_request *r);

/* Fires on the loop for ps_web_post. */
void ps_web_posted(ps_event *event, bool ok);

/* Timer of the loop: keeps streams alive and asks for the progress of jobs. */
void ps_web_beat(ps_event *event, bool ok);

/* Cancels all calls, and has later ones be cancelled. Blocks. */
void ps_web_drain(ps_web *web);

/* Answers a request for curves, and forgets it. On the loop. */
void ps_web_answer_curves(ps_web_request *r);

/* Takes a request for curves whose job GetJob has found. Answers it, at once or when the reports of
 * a job that is over were read. On the loop. */
void ps_web_take_job(ps_web_request *r, const Psgd__V1__Job *job);

/* Begins to read reports that a request waits for, unless others are being read. On the loop. */
void ps_web_read_reports(ps_web *web);

/* Releases what one thread has of the request. Under the mutex. */
void ps_web_drop(ps_web_request *r);

/* Returns an error as JSON, and sets the HTTP status that stands for its code. */
json_t *ps_web_error_json(const ps_error *error, unsigned *http_code);

/* Returns the file of the page at `path`, or NULL. */
const ps_web_asset *ps_web_asset_find(const char *path);

/* Compresses the files of the page. Call it once before any is found. */
void ps_web_assets_pack(void);

#endif
