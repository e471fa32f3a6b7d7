/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokens.c - the file of tokens: made, read, and what is refused. */
#include "common/base/files.h"
#include "common/pki/tokens.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/temp_dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const ps_principal sue = {.kind = PS_PRINCIPAL_SUBMITTER, .name = "sue"};
static const ps_principal otto = {.kind = PS_PRINCIPAL_OBSERVER, .name = "otto"};

typedef struct world {
    temp_dir dir;
    char file[256];
    ps_tokens tokens;
} world;

static void begin(world *w)
{
    memset(w, 0, sizeof *w);
    w->dir = temp_dir_create();
    snprintf(w->file, sizeof w->file, "%s/tokens", w->dir.path);
}

static void end(world *w)
{
    ps_tokens_fini(&w->tokens);
    temp_dir_destroy(&w->dir);
}

static void read_again(world *w)
{
    ps_status st;

    ps_tokens_fini(&w->tokens);
    st = ps_tokens_read(w->file, &w->tokens);
    assert_string_equal(st.text, "");
}

static void a_token_is_found_by_its_text(void **state)
{
    char first[PS_TOKEN_BYTES], second[PS_TOKEN_BYTES], *bytes;
    const ps_token *found;
    ps_token made;
    size_t n;
    world w;
    ps_status st;

    (void)state;
    begin(&w);
    st = ps_tokens_add(w.file, &sue, 1000, first, &made);
    assert_string_equal(st.text, "");
    st = ps_tokens_add(w.file, &otto, 2000, second, &made);
    assert_string_equal(st.text, "");
    assert_string_not_equal(first, second);
    read_again(&w);
    assert_int_equal(w.tokens.count, 2);
    found = ps_tokens_find(&w.tokens, second, PS_TOKEN_BYTES - 1);
    assert_ptr_equal(found, &w.tokens.items[1]);
    assert_true(ps_principal_is(&found->who, PS_PRINCIPAL_OBSERVER, "otto"));
    assert_int_equal(found->not_after, 2000);
    assert_null(ps_tokens_find(&w.tokens, second, PS_TOKEN_BYTES - 2));
    assert_null(ps_tokens_find(&w.tokens, found->digest, 64)); /* the hash is no token */
    assert_null(ps_tokens_find(&w.tokens, "", 0));
    assert_true(ps_tokens_has(&w.tokens, found->id, 1999));
    assert_false(ps_tokens_has(&w.tokens, found->id, 2000));
    st = ps_file_read(w.file, 1 << 20, &bytes, &n);
    assert_true(ps_is_ok(&st));
    assert_null(strstr(bytes, first + 5));
    free(bytes);
    end(&w);
}

static void tokens_go_by_id_or_principal(void **state)
{
    char token[PS_TOKEN_BYTES];
    ps_token made[3];
    size_t count;
    world w;
    ps_status st;

    (void)state;
    begin(&w);
    for (size_t i = 0; i < 3; i++) {
        st = ps_tokens_add(w.file, i < 2 ? &sue : &otto, 1000, token, &made[i]);
        assert_true(ps_is_ok(&st));
    }
    st = ps_tokens_remove(w.file, made[0].id, &count);
    assert_int_equal(count, 1);
    read_again(&w);
    assert_int_equal(w.tokens.count, 2);
    assert_false(ps_tokens_has(&w.tokens, made[0].id, 0));
    st = ps_tokens_remove(w.file, "submitter/sue", &count);
    assert_int_equal(count, 1);
    st = ps_tokens_remove(w.file, "submitter/sue", &count);
    assert_int_equal(st.code, PS_NOT_FOUND);
    read_again(&w);
    assert_int_equal(w.tokens.count, 1);
    assert_true(ps_tokens_has(&w.tokens, made[2].id, 0));
    end(&w);
}

static void only_users_have_tokens(void **state)
{
    static const ps_principal_kind kinds[] = {PS_PRINCIPAL_NODE, PS_PRINCIPAL_COORDINATOR,
                                              PS_PRINCIPAL_NONE};
    char token[PS_TOKEN_BYTES];
    ps_token made;
    world w;

    (void)state;
    begin(&w);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const ps_principal who = {.kind = kinds[i], .name = "a"};
        ps_status st = ps_tokens_add(w.file, &who, 1000, token, &made);

        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    }
    end(&w);
}

#define HASH "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

static void lines_are_checked(void **state)
{
    static const struct {
        const char *text;
        const char *why; /* NULL: it is read */
    } cases[] = {
        {"", NULL},
        {"# only a comment\n\n  \n", NULL},
        {"submitter/sue 5 " HASH, NULL},
        {"submitter/sue 5 " HASH " more\n", "t:1: KIND/NAME, seconds"},
        {"\nsubmitter/sue 5\n", "t:2: KIND/NAME, seconds"},
        {"submitter/sue -5 " HASH "\n", "t:1: KIND/NAME, seconds"},
        {"submitter/sue 5 " HASH "0\n", "t:1: KIND/NAME, seconds"},
        {"submitter/sue 5 9F86\n", "t:1: KIND/NAME, seconds"},
        {"node/a 5 " HASH "\n", "node/a: admin, submitter and observer have tokens"},
        {"sue 5 " HASH "\n", "KIND/NAME is allowed"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ps_tokens tokens;
        ps_status st = ps_tokens_parse("t", cases[i].text, strlen(cases[i].text), &tokens);

        if (cases[i].why == NULL) {
            assert_string_equal(st.text, "");
        } else if (st.code != PS_INVALID_ARGUMENT || strstr(st.text, cases[i].why) == NULL) {
            fail_msg("%s: %s", cases[i].text, st.text);
        }
        ps_tokens_fini(&tokens);
    }
}

static void write_own(const world *w, const char *text, mode_t mode)
{
    ps_status st = ps_file_write_private(w->file, text, strlen(text));

    assert_string_equal(st.text, "");
    assert_int_equal(chmod(w->file, mode), 0);
}

static void a_user_s_own_token_is_read_from_a_private_file(void **state)
{
    static const char good[] =
        "psgd_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    static const char *const wrong[] = {
        "",
        "\n",
        "psgd_0123",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "psgd_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0",
        "psgd_0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
        "psgd_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef x"};
    char token[PS_TOKEN_BYTES], text[200];
    ps_status st;
    world w;

    (void)state;
    begin(&w);
    snprintf(text, sizeof text, " %s\r\n", good);
    write_own(&w, text, 0600);
    st = ps_token_read(w.file, token);
    assert_string_equal(st.text, "");
    assert_string_equal(token, good);
    write_own(&w, text, 0640);
    st = ps_token_read(w.file, token);
    assert_int_equal(st.code, PS_FAILED_PRECONDITION);
    assert_non_null(strstr(st.text, "it has a token and mode 0640"));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_own(&w, wrong[i], 0600);
        st = ps_token_read(w.file, token);
        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
        assert_null(strstr(st.text, "0123456789"));
    }
    end(&w);
}

static void a_file_that_others_hold_is_not_waited_for_without_end(void **state)
{
    char token[PS_TOKEN_BYTES], lock[300];
    ps_token made;
    world w;
    ps_status st;
    int fd;

    (void)state;
    begin(&w);
    snprintf(lock, sizeof lock, "%s.lock", w.file);
    fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    alarm(60); /* ends the test if it waits on */
    st = ps_tokens_add(w.file, &sue, 1000, token, &made);
    alarm(0);
    assert_int_equal(st.code, PS_UNAVAILABLE);
    assert_non_null(strstr(st.text, "another program holds it"));
    close(fd);
    st = ps_tokens_add(w.file, &sue, 1000, token, &made);
    assert_string_equal(st.text, "");
    end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_found_by_its_text),
        cmocka_unit_test(tokens_go_by_id_or_principal),
        cmocka_unit_test(only_users_have_tokens),
        cmocka_unit_test(lines_are_checked),
        cmocka_unit_test(a_user_s_own_token_is_read_from_a_private_file),
        cmocka_unit_test(a_file_that_others_hold_is_not_waited_for_without_end),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
