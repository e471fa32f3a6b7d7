/* SPDX-License-Identifier: Apache-2.0 */
/* test_pki.c - principals, requests, an authority and the folders of its members. */
#include "common/pki/authority.h"
#include "common/pki/credentials.h"
#include "common/pki/issued.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/temp_dir.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t hour_s = 3600;

/* An authority and a member. */
typedef struct world {
    temp_dir dir;
    char pki[128], tls[128];
    ps_certificate root;
} world;

static void set_up(world *w)
{
    ps_status st;

    w->dir = temp_dir_create();
    snprintf(w->pki, sizeof w->pki, "%s/pki", w->dir.path);
    snprintf(w->tls, sizeof w->tls, "%s/tls", w->dir.path);
    st = ps_authority_create(w->pki, hour_s, &w->root);
    assert_string_equal(st.text, "");
}

static void tear_down(world *w)
{
    temp_dir_destroy(&w->dir);
}

static ps_principal principal(const char *text)
{
    ps_principal who;
    ps_status st = ps_principal_parse(text, &who);

    assert_string_equal(st.text, "");
    return who;
}

/* Makes a request in the folder `tls`, and returns it; the caller frees it. */
static char *ask(const char *tls, const char *who)
{
    ps_subject subject = {.who = principal(who)};
    ps_credentials_paths at;
    ps_request request;
    char *pem;
    size_t n;
    ps_status st = ps_subject_add_host(&subject, "10.0.0.7");

    assert_true(ps_is_ok(&st));
    st = ps_subject_add_host(&subject, "worker-1.example");
    assert_true(ps_is_ok(&st));
    st = ps_credentials_request(tls, &subject, &request);
    assert_string_equal(st.text, "");
    st = ps_credentials_find(tls, &at);
    assert_true(ps_is_ok(&st));
    st = ps_file_read(at.request, PS_PKI_FILE_MAX, &pem, &n);
    assert_true(ps_is_ok(&st));
    return pem;
}

/* Has it approved; the caller frees the answer. */
static ps_status approve(const world *w, const char *request, const char *who, int64_t valid_s,
                         ps_strbuf *answer, ps_certificate *out)
{
    ps_principal wanted = principal(who);

    return ps_authority_approve(w->pki, "request.pem", request, strlen(request), &wanted, valid_s,
                                answer, out);
}

static ps_status install(const char *tls, const ps_strbuf *answer, const char *fingerprint,
                         ps_certificate *own)
{
    return ps_credentials_install(tls, "answer.pem", answer->data, answer->len, fingerprint, own);
}

/* Makes the member node/worker-1. */
static void join(world *w, ps_certificate *own)
{
    ps_strbuf answer = {0};
    ps_certificate issued;
    char *request = ask(w->tls, "node/worker-1");
    ps_status st = approve(w, request, "node/worker-1", hour_s, &answer, &issued);

    assert_string_equal(st.text, "");
    st = install(w->tls, &answer, w->root.fingerprint, own);
    assert_string_equal(st.text, "");
    assert_string_equal(own->serial, issued.serial);
    ps_strbuf_fini(&answer);
    free(request);
}

static mode_t mode_of(const char *dir, const char *name)
{
    char path[256];
    struct stat facts;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return stat(path, &facts) == 0 ? facts.st_mode & 0777 : 0;
}

static void a_principal_is_a_kind_and_a_name(void **state)
{
    static const char *const wrong[] = {"node",     "node/",    "/worker-1", "worker/w",
                                        "node/a b", "node/a/b", "",          "node/\xc3\xa4",
                                        "Node/w",   "node/a\n"};
    char text[PS_PRINCIPAL_TEXT_BYTES], uri[PS_PRINCIPAL_URI_BYTES], longest[80] = "node/";
    ps_principal who = principal("submitter/anna.k_2");
    ps_status st;

    (void)state;
    assert_int_equal(who.kind, PS_PRINCIPAL_SUBMITTER);
    assert_string_equal(ps_principal_text(&who, text), "submitter/anna.k_2");
    assert_string_equal(ps_principal_uri(&who, uri), "psgd://submitter/anna.k_2");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        st = ps_principal_parse(wrong[i], &who);
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
        assert_non_null(strstr(st.text, "KIND/NAME is allowed"));
    }
    memset(longest + 5, 'x', 64);
    st = ps_principal_parse(longest, &who);
    assert_true(ps_is_ok(&st));
    longest[69] = 'x';
    st = ps_principal_parse(longest, &who);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = ps_principal_parse_uri("spiffe://node/w", &who);
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
}

static void hosts_are_names_and_addresses(void **state)
{
    static const char *const right[] = {"a", "a-b.example", "10.0.0.1", "::1", "1.example"};
    static const char *const wrong[] = {"",   "a..b", ".a",  "a.",   "*.example", "-a",
                                        "a-", "a_b",  "a b", "h:80", "[::1]"};
    ps_subject subject = {0};
    ps_status st;

    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        st = ps_subject_add_host(&subject, right[i]);
        assert_string_equal(st.text, "");
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        st = ps_subject_add_host(&subject, wrong[i]);
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    }
    while (subject.host_count < PS_PKI_HOSTS_MAX) {
        st = ps_subject_add_host(&subject, "a");
        assert_true(ps_is_ok(&st));
    }
    st = ps_subject_add_host(&subject, "a");
    assert_non_null(strstr(st.text, "at most 16 hosts"));
}

static void a_member_gets_what_it_asked_for(void **state)
{
    world w;
    ps_certificate own, checked;
    ps_status st;

    (void)state;
    set_up(&w);
    join(&w, &own);
    assert_true(ps_principal_is(&own.subject.who, PS_PRINCIPAL_NODE, "worker-1"));
    assert_int_equal(own.subject.host_count, 2);
    assert_string_equal(own.subject.hosts[1], "worker-1.example");
    st = ps_credentials_check(w.tls, &checked);
    assert_string_equal(st.text, "");
    assert_string_equal(checked.fingerprint, own.fingerprint);
    tear_down(&w);
}

static void keys_are_for_their_owner_only(void **state)
{
    world w;
    ps_certificate own;
    ps_status st;
    char path[256];

    (void)state;
    set_up(&w);
    free(ask(w.tls, "node/worker-1"));
    assert_int_equal(mode_of(w.pki, "root.key"), 0600);
    assert_int_equal(mode_of(w.tls, "next.key"), 0600);
    join(&w, &own);
    assert_int_equal(mode_of(w.tls, "identity.pem"), 0600);
    assert_int_equal(mode_of(w.tls, "next.key"), 0); /* it is used up */
    snprintf(path, sizeof path, "%s/identity.pem", w.tls);
    assert_int_equal(chmod(path, 0640), 0);
    st = ps_credentials_check(w.tls, &own);
    assert_non_null(strstr(st.text, "identity.pem: it has a private key and mode 0640; 0600"));
    tear_down(&w);
}

static void an_authority_grants_what_its_admin_says(void **state)
{
    world w;
    ps_strbuf answer = {0};
    ps_certificate issued;
    ps_status st;
    char *request;

    (void)state;
    set_up(&w);
    request = ask(w.tls, "admin/mallory");
    st = approve(&w, request, "node/worker-1", hour_s, &answer, &issued);
    assert_non_null(strstr(st.text, "it asks for admin/mallory, not for node/worker-1"));
    assert_int_equal(answer.len, 0);
    free(request);
    tear_down(&w);
}

static void a_second_authority_needs_another_folder(void **state)
{
    world w;
    ps_certificate root;
    ps_status st;

    (void)state;
    set_up(&w);
    st = ps_authority_create(w.pki, hour_s, &root);
    assert_int_equal(st.code, PS_ALREADY_EXISTS);
    tear_down(&w);
}

static void a_root_is_taken_by_its_fingerprint_only(void **state)
{
    world w;
    ps_strbuf answer = {0};
    ps_certificate own;
    ps_status st;
    char other[PS_FINGERPRINT_BYTES], *request;

    (void)state;
    set_up(&w);
    request = ask(w.tls, "node/worker-1");
    st = approve(&w, request, "node/worker-1", hour_s, &answer, &own);
    assert_true(ps_is_ok(&st));
    st = install(w.tls, &answer, NULL, &own);
    assert_non_null(strstr(st.text, "--fingerprint is needed"));
    memcpy(other, w.root.fingerprint, sizeof other);
    other[0] = other[0] == 'A' ? 'B' : 'A';
    st = install(w.tls, &answer, other, &own);
    assert_non_null(strstr(st.text, "not the one of --fingerprint; do not install it"));
    assert_int_equal(mode_of(w.tls, "root.pem"), 0);
    assert_int_equal(mode_of(w.tls, "identity.pem"), 0);
    ps_strbuf_fini(&answer);
    free(request);
    tear_down(&w);
}

static void fingerprints_are_compared_as_people_write_them(void **state)
{
    static const char there[PS_FINGERPRINT_BYTES] = "AB:0C:FF";

    (void)state;
    assert_true(ps_fingerprint_is("AB:0C:FF", there));
    assert_true(ps_fingerprint_is("sha256:ab0cff", there));
    assert_false(ps_fingerprint_is("AB:0C", there));
    assert_false(ps_fingerprint_is("AB:0C:FF:01", there));
    assert_false(ps_fingerprint_is("", there));
}

static void an_answer_is_to_the_request_that_waits(void **state)
{
    world w;
    ps_strbuf answer = {0};
    ps_certificate own;
    ps_status st;
    char *request;

    (void)state;
    set_up(&w);
    request = ask(w.tls, "node/worker-1");
    st = approve(&w, request, "node/worker-1", hour_s, &answer, &own);
    assert_true(ps_is_ok(&st));
    free(request);
    free(ask(w.tls, "node/worker-1")); /* another key */
    st = install(w.tls, &answer, w.root.fingerprint, &own);
    assert_non_null(strstr(st.text, "it is not the answer to"));
    ps_strbuf_fini(&answer);
    tear_down(&w);
}

static void a_renewed_certificate_needs_no_fingerprint(void **state)
{
    world w;
    ps_certificate first, second;
    ps_strbuf answer = {0};
    ps_status st;
    char *request;

    (void)state;
    set_up(&w);
    join(&w, &first);
    request = ask(w.tls, "node/worker-1");
    st = approve(&w, request, "node/worker-1", hour_s, &answer, &second);
    assert_true(ps_is_ok(&st));
    st = install(w.tls, &answer, NULL, &second);
    assert_string_equal(st.text, "");
    assert_string_not_equal(first.serial, second.serial);
    st = ps_credentials_check(w.tls, &second);
    assert_string_equal(st.text, "");
    ps_strbuf_fini(&answer);
    free(request);
    tear_down(&w);
}

static void an_expired_certificate_is_named(void **state)
{
    world w;
    ps_strbuf answer = {0};
    ps_certificate own;
    ps_status st;
    char *request;

    (void)state;
    set_up(&w);
    request = ask(w.tls, "node/worker-1");
    st = approve(&w, request, "node/worker-1", -1, &answer, &own);
    assert_true(ps_is_ok(&st));
    st = install(w.tls, &answer, w.root.fingerprint, &own);
    assert_non_null(strstr(st.text, "the certificate expired at 2"));
    ps_strbuf_fini(&answer);
    free(request);
    tear_down(&w);
}

static void a_certificate_ends_with_its_root(void **state)
{
    world w;
    ps_strbuf answer = {0};
    ps_certificate own;
    ps_status st;
    char *request;

    (void)state;
    set_up(&w);
    request = ask(w.tls, "node/worker-1");
    st = approve(&w, request, "node/worker-1", 1000 * hour_s, &answer, &own);
    assert_true(ps_is_ok(&st));
    assert_true(own.not_after <= w.root.not_after);
    ps_strbuf_fini(&answer);
    free(request);
    tear_down(&w);
}

static void what_is_missing_is_named(void **state)
{
    world w;
    ps_certificate own;
    ps_status st;

    (void)state;
    set_up(&w);
    st = ps_credentials_check(w.tls, &own);
    assert_int_equal(st.code, PS_NOT_FOUND);
    assert_non_null(strstr(st.text, "root.pem"));
    st = ps_authority_revoke(w.tls, "node/w", &(size_t){0});
    assert_non_null(strstr(st.text, "no authority in"));
    tear_down(&w);
}

/* Certificates of nodes live for a day, and each renewal issues another one. */
static void certificates_are_removed_a_month_after_their_end(void **state)
{
    enum { MANY = PS_ISSUED_SWEPT_MAX + 500 };
    char first[256], more[256];
    ps_certificate own, found;
    int64_t end_s;
    size_t count, removed;
    ps_issued *all;
    ps_status st;
    world w;

    (void)state;
    set_up(&w);
    join(&w, &own);
    end_s = own.not_after;
    assert_int_equal(ps_issued_sweep(w.pki, end_s), 0);
    assert_int_equal(ps_issued_sweep(w.pki, end_s + PS_ISSUED_KEPT_S - 60), 0);
    st = ps_issued_find(w.pki, own.serial, &found);
    assert_string_equal(st.text, "");
    assert_string_equal(found.serial, own.serial);

    snprintf(first, sizeof first, "%s/issued/%s.pem", w.pki, own.serial);
    for (int i = 0; i < MANY; i++) {
        snprintf(more, sizeof more, "%s/issued/%05d.pem", w.pki, i);
        assert_int_equal(link(first, more), 0);
    }
    st = ps_authority_list(w.pki, &all, &count);
    assert_string_equal(st.text, "");
    assert_int_equal(count, MANY + 1);
    free(all);
    /* a sweep is short, and those after it go on */
    end_s += PS_ISSUED_KEPT_S + 2 * 86400;
    removed = ps_issued_sweep(w.pki, end_s);
    assert_int_equal(removed, PS_ISSUED_SWEPT_MAX);
    removed += ps_issued_sweep(w.pki, end_s);
    assert_int_equal(removed, MANY + 1);
    st = ps_issued_find(w.pki, own.serial, &found);
    assert_int_equal(st.code, PS_NOT_FOUND);

    /* one whose file says nothing about its end, as a copy's may, is read once */
    join(&w, &own);
    snprintf(first, sizeof first, "%s/issued/%s.pem", w.pki, own.serial);
    assert_int_equal(utimensat(AT_FDCWD, first, (struct timespec[2]){{0}, {0}}, 0), 0);
    assert_int_equal(ps_issued_sweep(w.pki, own.not_after + 5 * 86400), 0);
    assert_int_equal(ps_issued_sweep(w.pki, own.not_after + PS_ISSUED_KEPT_S + 86400), 1);
    tear_down(&w);
}

static void revoked_certificates_are_listed(void **state)
{
    world w, other;
    ps_certificate own;
    ps_credentials_paths at;
    ps_issued *all;
    ps_revoked *revoked;
    size_t n, count;
    char path[256], *crl;
    ps_status st;

    (void)state;
    set_up(&w);
    join(&w, &own);
    st = ps_authority_revoke(w.pki, "node/worker-2", &count);
    assert_int_equal(st.code, PS_NOT_FOUND);
    st = ps_authority_revoke(w.pki, "node/worker-1", &count);
    assert_string_equal(st.text, "");
    assert_int_equal(count, 1);
    st = ps_authority_list(w.pki, &all, &n);
    assert_string_equal(st.text, "");
    assert_int_equal(n, 1);
    assert_true(all[0].is_revoked);
    free(all);

    st = ps_revoked_read(w.tls, &revoked);
    assert_true(ps_is_ok(&st));
    assert_null(revoked); /* not installed yet */
    snprintf(path, sizeof path, "%s/crl.pem", w.pki);
    st = ps_file_read(path, PS_CRL_FILE_MAX, &crl, &n);
    assert_true(ps_is_ok(&st));
    st = ps_credentials_install(w.tls, "crl.pem", crl, n, NULL, &own);
    assert_string_equal(st.text, "");
    st = ps_revoked_read(w.tls, &revoked);
    assert_string_equal(st.text, "");
    assert_true(ps_revoked_has(revoked, own.serial));
    assert_false(ps_revoked_has(revoked, "01"));
    ps_revoked_destroy(revoked);

    set_up(&other); /* its members do not take the list of another authority */
    join(&other, &own);
    st = ps_credentials_install(other.tls, "crl.pem", crl, n, NULL, &own);
    assert_non_null(strstr(st.text, "not signed by the root certificate"));
    st = ps_credentials_find(other.tls, &at);
    assert_true(ps_is_ok(&st));
    st = ps_file_write(at.crl, crl, n);
    assert_true(ps_is_ok(&st));
    st = ps_revoked_read(other.tls, &revoked);
    assert_non_null(strstr(st.text, "crl.pem: it is not signed by root.pem"));
    free(crl);
    tear_down(&other);
    tear_down(&w);
}

/* Makes a request of an RSA key; the caller frees it. */
static char *rsa_request(void)
{
    EVP_PKEY *key = EVP_RSA_gen(2048);
    X509_REQ *request = X509_REQ_new();
    BIO *bio = BIO_new(BIO_s_mem());
    char *text, *copy;
    long n;

    X509_REQ_set_pubkey(request, key);
    X509_REQ_sign(request, key, EVP_sha256());
    PEM_write_bio_X509_REQ(bio, request);
    n = BIO_get_mem_data(bio, &text);
    copy = strndup(text, (size_t)n);
    BIO_free(bio);
    X509_REQ_free(request);
    EVP_PKEY_free(key);
    return copy;
}

static void requests_that_are_wrong_are_refused(void **state)
{
    static const char huge[PS_PKI_FILE_MAX + 1];
    world w;
    ps_request out, honest;
    ps_status st;
    size_t flips = 0;
    char *request;

    (void)state;
    set_up(&w);
    request = ask(w.tls, "node/worker-1");
    st = ps_request_read("r", request, strlen(request), &honest);
    assert_string_equal(st.text, "");
    for (size_t i = 0; i + 1 < strlen(request); i++) { /* any bit is covered by the signature */
        char was = request[i];

        request[i] = (char)(was ^ 1);
        st = ps_request_read("r", request, strlen(request), &out);
        if (ps_is_ok(&st)) { /* bits of base64 that stand for nothing */
            assert_string_equal(out.key_fingerprint, honest.key_fingerprint);
        } else {
            assert_int_equal(st.code, PS_INVALID_ARGUMENT);
            flips++;
        }
        request[i] = was;
    }
    assert_true(flips > 300);
    free(request);
    st = ps_request_read("r", huge, sizeof huge, &out);
    assert_non_null(strstr(st.text, "at most 65536 are allowed"));
    request = rsa_request();
    st = ps_request_read("r", request, strlen(request), &out);
    assert_string_equal(st.text, "r: its key is rsaEncryption; P-256 is allowed");
    free(request);
    tear_down(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_principal_is_a_kind_and_a_name),
        cmocka_unit_test(hosts_are_names_and_addresses),
        cmocka_unit_test(a_member_gets_what_it_asked_for),
        cmocka_unit_test(keys_are_for_their_owner_only),
        cmocka_unit_test(an_authority_grants_what_its_admin_says),
        cmocka_unit_test(a_second_authority_needs_another_folder),
        cmocka_unit_test(a_root_is_taken_by_its_fingerprint_only),
        cmocka_unit_test(fingerprints_are_compared_as_people_write_them),
        cmocka_unit_test(an_answer_is_to_the_request_that_waits),
        cmocka_unit_test(a_renewed_certificate_needs_no_fingerprint),
        cmocka_unit_test(an_expired_certificate_is_named),
        cmocka_unit_test(a_certificate_ends_with_its_root),
        cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(certificates_are_removed_a_month_after_their_end),
        cmocka_unit_test(revoked_certificates_are_listed),
        cmocka_unit_test(requests_that_are_wrong_are_refused),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
