/* SPDX-License-Identifier: Apache-2.0 */
/* test_sha256.c - SHA-256 against the vectors of NIST. */
#include "common/base/sha256.h"

#include "common/base/draw.h"
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

static void digests_around_the_ends_of_blocks_are_right(void **state)
{
    /* Of n letters a, computed by Python's hashlib. */
    static const struct {
        size_t n;
        const char *hex;
    } vectors[] = {
        {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
        {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
    };
    char letters[128], hex[PS_SHA256_HEX_BYTES];

    (void)state;
    memset(letters, 'a', sizeof letters);
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        ps_sha256_of(letters, vectors[i].n, hex);
        assert_string_equal(hex, vectors[i].hex);
    }
}

static void a_million_letters_have_their_digest(void **state)
{
    uint8_t digest[PS_SHA256_BYTES];
    char hex[PS_SHA256_HEX_BYTES], letters[1000];
    ps_sha256 sha;

    (void)state;
    memset(letters, 'a', sizeof letters);
    ps_sha256_init(&sha);
    for (int i = 0; i < 1000; i++) {
        ps_sha256_add(&sha, letters, sizeof letters);
    }
    ps_sha256_finish(&sha, digest);
    ps_sha256_hex(digest, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void pieces_of_any_size_give_the_same_digest(void **state)
{
    enum { N = 1000, SEED = 7 };
    uint64_t key = ps_draw_key(SEED, PS_DRAW_TEST, 0, 0, 0);
    uint8_t bytes[N], digest[PS_SHA256_BYTES];
    char whole[PS_SHA256_HEX_BYTES], hex[PS_SHA256_HEX_BYTES];

    (void)state;
    print_message("seed %d\n", SEED);
    for (size_t i = 0; i < N; i++) {
        bytes[i] = (uint8_t)ps_draw_u64(key, i);
    }
    for (uint64_t round = 0; round < 200; round++) {
        size_t n = (size_t)ps_draw_below(key, round, N + 1);
        uint64_t index = round << 32;
        ps_sha256 sha;

        ps_sha256_of(bytes, n, whole);
        ps_sha256_init(&sha);
        for (size_t at = 0; at < n;) {
            size_t piece = (size_t)ps_draw_below(key, index++, 150);

            piece = piece < n - at ? piece : n - at;
            ps_sha256_add(&sha, bytes + at, piece);
            at += piece;
        }
        ps_sha256_finish(&sha, digest);
        ps_sha256_hex(digest, hex);
        assert_string_equal(hex, whole);
    }
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
        cmocka_unit_test(digests_around_the_ends_of_blocks_are_right),
        cmocka_unit_test(a_million_letters_have_their_digest),
        cmocka_unit_test(pieces_of_any_size_give_the_same_digest),
        cmocka_unit_test(a_file_has_the_digest_of_its_bytes),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL); /* e.g. 'test_sha256 a_*' */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
