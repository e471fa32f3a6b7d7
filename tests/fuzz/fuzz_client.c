/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_client.c - the certificate of a client as DER: any bytes, or a good certificate with some
 * bytes changed.
 *
 * The first byte tells: odd, any bytes follow; even, changes do, of three bytes each: offset,
 * modulo the length, and the new byte. Whom nobody has signed is refused; whatever is taken is of
 * the user whose certificate it was.
 */
#include "common/base/files.h"
#include "common/pki/authority.h"
#include "common/pki/credentials.h"

#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char tls[PS_PATH_MAX];
static ps_principal user;
static uint8_t *good;
static size_t good_len;

static void must(ps_status st)
{
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "%s\n", st.text);
        abort();
    }
}

static ps_status check(const void *der, size_t n)
{
    ps_certificate certificate;
    ps_status st = ps_credentials_check_client(tls, "certificate", der, n, &certificate);

    if (ps_is_ok(&st) && !ps_principal_is(&certificate.subject.who, user.kind, user.name)) {
        abort();
    }
    return st;
}

/* Makes an authority, and the certificate of a user. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char home[] = "/tmp/psgd-fuzz-client-XXXXXX", pki[PS_PATH_MAX], path[PS_PATH_MAX];
    char fingerprint[PS_FINGERPRINT_BYTES];
    ps_subject subject = {0};
    ps_strbuf answer = {0};
    ps_certificate certificate;
    ps_request request;
    X509 *x509;
    char *pem;
    size_t n;
    FILE *file;

    (void)argc;
    (void)argv;
    if (mkdtemp(home) == NULL) {
        abort();
    }
    must(ps_path_join(pki, sizeof pki, home, "pki"));
    must(ps_path_join(tls, sizeof tls, home, "tls"));
    must(ps_principal_parse_uri("psgd://observer/ann", &user));
    subject.who = user;
    must(ps_authority_create(pki, 86400, &certificate));
    must(ps_credentials_request(tls, &subject, &request));
    must(ps_path_join(path, sizeof path, tls, "request.pem"));
    must(ps_file_read(path, PS_PKI_FILE_MAX, &pem, &n));
    must(ps_authority_approve(pki, "request", pem, n, &user, 3600, &answer, &certificate));
    free(pem);
    must(ps_authority_fingerprint(pki, fingerprint));
    must(ps_credentials_install(tls, "answer", answer.data, answer.len, fingerprint, &certificate));
    must(ps_path_join(path, sizeof path, tls, "identity.pem"));
    file = fopen(path, "r");
    x509 = file != NULL ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;
    n = x509 != NULL ? (size_t)i2d_X509(x509, &good) : 0;
    if (n == 0) {
        abort();
    }
    good_len = n;
    must(check(good, good_len));
    fclose(file);
    X509_free(x509);
    ps_strbuf_fini(&answer);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes;

    if (size == 0) {
        return 0;
    }
    if (data[0] % 2 == 1) {
        (void)check(data + 1, size - 1);
        return 0;
    }
    bytes = malloc(good_len);
    if (bytes == NULL) {
        abort();
    }
    memcpy(bytes, good, good_len);
    for (size_t i = 1; i + 3 <= size; i += 3) {
        bytes[(data[i] + 256U * data[i + 1]) % good_len] = data[i + 2];
    }
    (void)check(bytes, good_len);
    free(bytes);
    return 0;
}
