/* SPDX-License-Identifier: Apache-2.0 */
/* test_sha256.c - SHA-256 against the vectors of NIST. */
#include "common/base/sha256.h"

#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void known_texts_have_their_digests(void **state)
{
    /* FIPS 180-2 appendix B, and the empty text. */
    static const char *const vectors[][2] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
         "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    char hex[PS_SHA256_HEX_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        ps_sha256_of(vectors[i][0], strlen(vectors[i][0]), hex);
        assert_string_equal(hex, vectors[i][1]);
    }
}

static void a_million_letters_have_their_digest(void **state)
{
    char hex[PS_SHA256_HEX_BYTES], letters[1000];
    ps_sha256 sha;

    (void)state;
    memset(letters, 'a', sizeof letters);
    ps_sha256_init(&sha);
    for (int i = 0; i < 1000; i++) {
        ps_sha256_add(&sha, letters, sizeof letters);
    }
    ps_sha256_finish(&sha, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void a_digest_that_was_given_up_leaves_nothing(void **state)
{
    char want[PS_SHA256_HEX_BYTES], hex[PS_SHA256_HEX_BYTES];
    ps_sha256 sha = {0};

    (void)state;
    ps_sha256_fini(&sha);
    ps_sha256_init(&sha);
    ps_sha256_add(&sha, "ab", 2);
    ps_sha256_fini(&sha);
    assert_null(sha.context);
    ps_sha256_init(&sha);
    ps_sha256_add(&sha, "c", 1);
    ps_sha256_finish(&sha, hex);
    ps_sha256_of("c", 1, want);
    assert_string_equal(hex, want);
    ps_sha256_fini(&sha);
}

static void a_file_has_the_digest_of_its_bytes(void **state)
{
    char path[] = "/tmp/test_sha256.XXXXXX", text[200000];
    char want[PS_SHA256_HEX_BYTES], hex[PS_SHA256_HEX_BYTES];
    int fd = mkstemp(path);
    uint64_t n = 0;
    ps_status st;

    (void)state;
    assert_true(fd >= 0);
    memset(text, 'x', sizeof text);
    assert_int_equal(write(fd, text, sizeof text), sizeof text);
    close(fd);
    ps_sha256_of(text, sizeof text, want);
    st = ps_sha256_of_file(path, hex, &n);
    unlink(path);
    assert_true(ps_is_ok(&st));
    assert_string_equal(hex, want);
    assert_int_equal(n, sizeof text);
    st = ps_sha256_of_file(path, hex, &n);
    assert_int_equal(st.code, PS_NOT_FOUND);
    st = ps_sha256_of_file("/", hex, &n);
    assert_false(ps_is_ok(&st));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_texts_have_their_digests),
        cmocka_unit_test(a_million_letters_have_their_digest),
        cmocka_unit_test(a_digest_that_was_given_up_leaves_nothing),
        cmocka_unit_test(a_file_has_the_digest_of_its_bytes),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL); /* e.g. 'test_sha256 a_*' */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
