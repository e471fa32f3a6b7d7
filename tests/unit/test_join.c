/* SPDX-License-Identifier: Apache-2.0 */
/* test_join.c - join tokens: what they are, who may use them, and what a renewal may not change. */
#include "common/pki/authority.h"
#include "common/pki/credentials.h"
#include "common/pki/join.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/temp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PORT = 15389 };
static const int64_t hour_s = 3600, minute_s = 60;

typedef struct world {
    temp_dir dir;
    char pki[128], tls[128], file[160];
    ps_certificate root;
    ps_strbuf answer;
    ps_joined joined;
} world;

static void set_up(world *w)
{
    ps_status st;

    memset(w, 0, sizeof *w);
    w->dir = temp_dir_create();
    snprintf(w->pki, sizeof w->pki, "%s/pki", w->dir.path);
    snprintf(w->tls, sizeof w->tls, "%s/tls", w->dir.path);
    snprintf(w->file, sizeof w->file, "%s/join-tokens", w->pki);
    st = ps_authority_create(w->pki, hour_s, &w->root);
    assert_string_equal(st.text, "");
}

static void tear_down(world *w)
{
    ps_strbuf_fini(&w->answer);
    temp_dir_destroy(&w->dir);
}

static ps_principal principal(const char *text)
{
    ps_principal who;
    ps_status st = ps_principal_parse(text, &who);

    assert_string_equal(st.text, "");
    return who;
}

static ps_join_token make(const world *w, const char *who, int64_t valid_s)
{
    char text[PS_JOIN_TOKEN_BYTES];
    ps_principal node = principal(who);
    ps_join_token token;
    ps_status st = ps_join_token_add(w->pki, &node, PORT, valid_s, text);

    assert_string_equal(st.text, "");
    st = ps_join_token_parse(text, &token);
    assert_string_equal(st.text, "");
    return token;
}

/* Draws a key in w->tls and returns the request, PEM, which the caller frees. */
static char *ask_pem(const world *w, const char *who, const char *host)
{
    ps_subject subject = {.who = principal(who)};
    ps_credentials_paths at;
    ps_request request;
    char *pem;
    size_t n;
    ps_status st = host != NULL ? ps_subject_add_host(&subject, host) : ps_ok();

    assert_string_equal(st.text, "");
    st = ps_credentials_request(w->tls, &subject, &request);
    assert_string_equal(st.text, "");
    st = ps_credentials_find(w->tls, &at);
    assert_true(ps_is_ok(&st));
    st = ps_file_read(at.request, PS_PKI_FILE_MAX, &pem, &n);
    assert_true(ps_is_ok(&st));
    return pem;
}

/* Has `who` join by a secret; the answer is in w->answer. */
static ps_status join(world *w, const char *secret, const char *who, const char *host)
{
    char *pem = ask_pem(w, who, host);
    ps_strbuf request = {0};
    ps_status st;

    ps_join_put_request(&request, secret, pem, strlen(pem));
    ps_strbuf_clear(&w->answer);
    st = ps_join_answer(w->pki, ps_strbuf_text(&request), request.len, minute_s, &w->answer,
                        &w->joined);
    ps_strbuf_fini(&request);
    free(pem);
    return st;
}

static void expect_refused(world *w, const char *secret, const char *who, const char *host,
                           ps_code code, const char *text)
{
    ps_status st = join(w, secret, who, host);
    const char *pem;
    size_t n;

    assert_int_equal(st.code, code);
    assert_non_null(strstr(st.text, text));
    assert_string_equal(w->joined.certificate.serial, "");
    assert_null(strstr(ps_strbuf_text(&w->answer), "BEGIN"));
    st = ps_join_read_answer(ps_strbuf_text(&w->answer), w->answer.len, &pem, &n);
    assert_int_equal(st.code, PS_PERMISSION_DENIED);
    assert_non_null(strstr(st.text, text));
}

static void a_token_gives_one_node_one_certificate(void **state)
{
    ps_certificate own;
    ps_join_token token;
    const char *pem;
    struct stat facts;
    char *lines;
    size_t n;
    world w;
    ps_status st;

    (void)state;
    set_up(&w);
    token = make(&w, "node/worker-1", minute_s);
    assert_int_equal(token.port, PORT);
    assert_true(ps_fingerprint_is(token.fingerprint, w.root.fingerprint));
    st = join(&w, token.secret, "node/worker-1", NULL);
    assert_string_equal(st.text, "");
    st = ps_join_read_answer(ps_strbuf_text(&w.answer), w.answer.len, &pem, &n);
    assert_string_equal(st.text, "");
    st = ps_credentials_install(w.tls, "answer", pem, n, token.fingerprint, &own);
    assert_string_equal(st.text, "");
    assert_string_equal(own.subject.who.name, "worker-1");
    assert_int_equal(own.subject.host_count, 0);
    assert_int_equal(own.not_after - own.not_before, minute_s + PS_PKI_EARLY_S);
    assert_string_equal(own.serial, w.joined.certificate.serial);
    st = ps_file_read(w.file, 1000, &lines, &n);
    assert_true(ps_is_ok(&st));
    assert_null(strstr(lines, token.secret));
    assert_int_equal(stat(w.file, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    free(lines);
    expect_refused(&w, token.secret, "node/worker-1", NULL, PS_UNAUTHENTICATED, "was used already");
    tear_down(&w);
}

static void a_token_is_not_used_up_while_the_authority_cannot_be_used(void **state)
{
    char key[PS_PATH_MAX], away[PS_PATH_MAX];
    ps_join_token token;
    world w;
    ps_status st;

    (void)state;
    set_up(&w);
    token = make(&w, "node/worker-1", minute_s);
    st = ps_path_join(key, sizeof key, w.pki, "root.key");
    assert_true(ps_is_ok(&st));
    st = ps_path_join(away, sizeof away, w.pki, "root.away");
    assert_true(ps_is_ok(&st));
    assert_int_equal(rename(key, away), 0);
    expect_refused(&w, token.secret, "node/worker-1", NULL, PS_NOT_FOUND, "no authority in");
    assert_int_equal(rename(away, key), 0);
    st = join(&w, token.secret, "node/worker-1", NULL);
    assert_string_equal(st.text, "");
    tear_down(&w);
}

static void who_is_put_off_may_ask_again(void **state)
{
    const ps_status later = ps_fail(PS_UNAVAILABLE, "it follows"),
                    never = ps_fail(PS_NOT_FOUND, "no");
    ps_strbuf text = {0};
    const char *pem;
    size_t n;
    ps_status st;

    (void)state;
    ps_join_put_refusal(&text, &later);
    st = ps_join_read_answer(ps_strbuf_text(&text), text.len, &pem, &n);
    assert_int_equal(st.code, PS_UNAVAILABLE);
    assert_string_equal(st.text, "it follows");
    ps_strbuf_clear(&text);
    ps_join_put_refusal(&text, &never);
    st = ps_join_read_answer(ps_strbuf_text(&text), text.len, &pem, &n);
    assert_int_equal(st.code, PS_PERMISSION_DENIED);
    ps_strbuf_fini(&text);
}

static void who_may_not_join_is_told_why(void **state)
{
    char guess[PS_SHA256_HEX_BYTES];
    ps_join_token token, ended;
    ps_status st;
    world w;

    (void)state;
    set_up(&w);
    token = make(&w, "node/worker-1", minute_s);
    ended = make(&w, "node/worker-2", 0);
    expect_refused(&w, token.secret, "admin/eve", NULL, PS_PERMISSION_DENIED,
                   "the join token is for node/worker-1; the request names admin/eve");
    expect_refused(&w, token.secret, "node/worker-2", NULL, PS_PERMISSION_DENIED,
                   "the request names node/worker-2");
    expect_refused(&w, token.secret, "coordinator/worker-1", NULL, PS_PERMISSION_DENIED,
                   "the request names coordinator/worker-1");
    expect_refused(&w, token.secret, "node/worker-1", "coordinator.example", PS_INVALID_ARGUMENT,
                   "names 1 hosts");
    expect_refused(&w, ended.secret, "node/worker-2", NULL, PS_UNAUTHENTICATED, "ended at");
    memcpy(guess, token.secret, sizeof guess);
    guess[63] = guess[63] == '0' ? '1' : '0';
    expect_refused(&w, guess, "node/worker-1", NULL, PS_UNAUTHENTICATED, "is not known here");
    expect_refused(&w, "00", "node/worker-1", NULL, PS_INVALID_ARGUMENT, "no request to join");
    st = join(&w, token.secret, "node/worker-1", NULL); /* none of these has used it up */
    assert_string_equal(st.text, "");
    tear_down(&w);
}

static void tokens_that_wait_are_bounded(void **state)
{
    char text[PS_JOIN_TOKEN_BYTES];
    ps_principal node = principal("node/n"), admin = principal("admin/a");
    ps_join_token token;
    world w;
    ps_status st;

    (void)state;
    set_up(&w);
    for (int i = 0; i < PS_JOIN_TOKENS_MAX; i++) {
        token = make(&w, "node/n", minute_s);
    }
    st = ps_join_token_add(w.pki, &node, PORT, minute_s, text);
    assert_int_equal(st.code, PS_RESOURCE_EXHAUSTED);
    st = join(&w, token.secret, "node/n", NULL);
    assert_string_equal(st.text, "");
    make(&w, "node/n", minute_s);
    st = ps_join_token_add(w.pki, &admin, PORT, minute_s, text);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "admin/a: only node/NAME may join"));
    tear_down(&w);
}

static void tokens_that_have_ended_make_room(void **state)
{
    ps_join_token token;
    ps_status st;
    world w;

    (void)state;
    set_up(&w);
    for (int i = 0; i < 4 * PS_JOIN_TOKENS_MAX + 10; i++) {
        token = make(&w, "node/n", 0);
    }
    token = make(&w, "node/n", minute_s);
    st = join(&w, token.secret, "node/n", NULL);
    assert_string_equal(st.text, "");
    tear_down(&w);
}

static void what_is_no_token_is_refused_without_repeating_it(void **state)
{
    static const char *const wrong[] = {
        "",
        "psgd-join:",
        "psgd-join:node/a:15389:00:00",
        "psgd_0123",
        "psgd-join:node/a:0:" /* port */
        "0000000000000000000000000000000000000000000000000000000000000000:"
        "0000000000000000000000000000000000000000000000000000000000000000",
        "psgd-join:node/a:15389:"
        "0000000000000000000000000000000000000000000000000000000000000000:"
        "00000000000000000000000000000000000000000000000000000000000000001"};
    ps_join_token token;
    ps_status st;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        st = ps_join_token_parse(wrong[i], &token);
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
        assert_null(strstr(st.text, "00"));
    }
    st = ps_join_token_parse("psgd-join:admin/eve:15389:"
                             "0000000000000000000000000000000000000000000000000000000000000000:"
                             "0000000000000000000000000000000000000000000000000000000000000000",
                             &token);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(st.text, "only nodes join"));
}

/* Renews the certificate `serial` by a request for `who`. */
static ps_status renew(world *w, const char *serial, const char *who, const char *host,
                       ps_certificate *out)
{
    char *pem = ask_pem(w, who, host);
    ps_status st;

    ps_strbuf_clear(&w->answer);
    st = ps_authority_renew(w->pki, "request", pem, strlen(pem), serial, minute_s, &w->answer, out);
    free(pem);
    return st;
}

static void a_renewal_changes_neither_name_nor_hosts(void **state)
{
    char serial[PS_PKI_SERIAL_BYTES];
    ps_certificate next;
    size_t count;
    world w;
    ps_status st;

    (void)state;
    set_up(&w);
    st = join(&w, make(&w, "node/worker-1", minute_s).secret, "node/worker-1", NULL);
    assert_string_equal(st.text, "");
    memcpy(serial, w.joined.certificate.serial, sizeof serial);
    st = renew(&w, serial, "node/worker-1", NULL, &next);
    assert_string_equal(st.text, "");
    assert_string_equal(next.subject.who.name, "worker-1");
    assert_string_not_equal(next.serial, serial);
    for (size_t i = 0; i < 3; i++) {
        static const char *const asked[][2] = {
            {"node/worker-2", NULL}, {"admin/worker-1", NULL}, {"node/worker-1", "a.example"}};

        st = renew(&w, serial, asked[i][0], asked[i][1], &next);
        assert_int_equal(st.code, PS_PERMISSION_DENIED);
        assert_non_null(strstr(st.text, "renewing it changes neither"));
        assert_int_equal(w.answer.len, 0);
    }
    st = renew(&w, "00", "node/worker-1", NULL, &next);
    assert_int_equal(st.code, PS_NOT_FOUND);
    st = renew(&w, "../x", "node/worker-1", NULL, &next);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = ps_authority_revoke(w.pki, "node/worker-1", &count);
    assert_string_equal(st.text, "");
    assert_int_equal(count, 2);
    st = renew(&w, serial, "node/worker-1", NULL, &next);
    assert_int_equal(st.code, PS_PERMISSION_DENIED);
    assert_non_null(strstr(st.text, "was revoked"));
    tear_down(&w);
}

static void an_expired_certificate_is_not_renewed_but_can_be_revoked(void **state)
{
    ps_principal who = principal("node/worker-1");
    ps_certificate own;
    size_t count;
    char *pem;
    world w;
    ps_status st;

    (void)state;
    set_up(&w);
    pem = ask_pem(&w, "node/worker-1", NULL);
    st = ps_authority_approve(w.pki, "request", pem, strlen(pem), &who, 0, &w.answer, &own);
    assert_string_equal(st.text, "");
    free(pem);
    st = renew(&w, own.serial, "node/worker-1", NULL, &own);
    assert_int_equal(st.code, PS_PERMISSION_DENIED);
    assert_non_null(strstr(st.text, "has expired; the node has to join again"));
    st = ps_authority_revoke(w.pki, "node/worker-1", &count);
    assert_string_equal(st.text, "");
    assert_int_equal(count, 1);
    tear_down(&w);
}

static void who_is_revoked_does_not_join_by_a_token_that_waits(void **state)
{
    ps_join_token waits, others;
    size_t count;
    world w;
    ps_status st;

    (void)state;
    set_up(&w);
    waits = make(&w, "node/worker-1", 60);
    others = make(&w, "node/worker-2", 60);
    st = ps_join_tokens_end(w.pki, "node/worker-1", &count);
    assert_string_equal(st.text, "");
    assert_int_equal(count, 1);
    expect_refused(&w, waits.secret, "node/worker-1", NULL, PS_UNAUTHENTICATED, "ended at");
    st = join(&w, others.secret, "node/worker-2", NULL);
    assert_string_equal(st.text, "");
    st = ps_join_tokens_end(w.pki, "node/worker-1", &count);
    assert_string_equal(st.text, "");
    assert_int_equal(count, 0);
    tear_down(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_gives_one_node_one_certificate),
        cmocka_unit_test(who_may_not_join_is_told_why),
        cmocka_unit_test(a_token_is_not_used_up_while_the_authority_cannot_be_used),
        cmocka_unit_test(who_is_put_off_may_ask_again),
        cmocka_unit_test(tokens_that_wait_are_bounded),
        cmocka_unit_test(tokens_that_have_ended_make_room),
        cmocka_unit_test(what_is_no_token_is_refused_without_repeating_it),
        cmocka_unit_test(a_renewal_changes_neither_name_nor_hosts),
        cmocka_unit_test(an_expired_certificate_is_not_renewed_but_can_be_revoked),
        cmocka_unit_test(who_is_revoked_does_not_join_by_a_token_that_waits),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
