/* SPDX-License-Identifier: Apache-2.0 */
/* certificate_x509.c - see certificate_impl.h. */
#include "common/pki/certificate_impl.h"

#include "common/base/shorten.h"
#include "common/pki/secret.h"

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

ps_status ps_x509_fail(ps_code code, const char *fmt, ...)
{
    unsigned long error = ERR_peek_last_error();
    const char *reason = error != 0 ? ERR_reason_error_string(error) : NULL;
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ERR_clear_error();
    return reason != NULL ? ps_fail(code, "%s: %s", text, reason) : ps_fail(code, "%s", text);
}

/* --- reading ------------------------------------------------------------------- */

/* Refuses an encrypted key, in place of asking the user for its passphrase. */
static int no_passphrase(char *buf, int size, int rwflag, void *arg)
{
    (void)buf;
    (void)size;
    (void)rwflag;
    (void)arg;
    return -1;
}

/* Returns whether libcrypto's last error says that the PEM text has no further object of the kind
 * asked for. Clears the error if so. */
static bool was_end(void)
{
    unsigned long error = ERR_peek_last_error();
    bool is_end = ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;

    if (is_end) {
        ERR_clear_error();
    }
    return is_end;
}

ps_status ps_x509_read(const char *what, const char *pem, size_t n, size_t index, X509 **out)
{
    BIO *bio = BIO_new_mem_buf(pem, (int)n);
    ps_status st = ps_ok();

    *out = NULL;
    for (size_t i = 0; bio != NULL && i <= index; i++) {
        X509_free(*out);
        *out = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL);
        if (*out == NULL) {
            if (!was_end()) {
                st = ps_x509_fail(PS_INVALID_ARGUMENT, "%s: certificate %zu cannot be read", what,
                                  i + 1);
            }
            break;
        }
    }
    BIO_free(bio);
    return st;
}

ps_status ps_x509_check_key(const char *what, EVP_PKEY *key)
{
    char group[32] = "";
    size_t n = 0;

    if (key == NULL || EVP_PKEY_get_base_id(key) != EVP_PKEY_EC ||
        EVP_PKEY_get_group_name(key, group, sizeof group, &n) != 1 ||
        strcmp(group, "prime256v1") != 0) {
        ERR_clear_error();
        return ps_fail(PS_INVALID_ARGUMENT, "%s: its key is %s; P-256 is allowed", what,
                       key == NULL        ? "none that can be read"
                       : group[0] != '\0' ? group
                                          : OBJ_nid2sn(EVP_PKEY_get_base_id(key)));
    }
    return ps_ok();
}

ps_status ps_x509_read_key(const char *what, const char *pem, size_t n, EVP_PKEY **out)
{
    BIO *bio = BIO_new_mem_buf(pem, (int)n);
    ps_status st;

    ps_secret_keep_from_dumps();
    *out = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
    BIO_free(bio);
    if (*out == NULL) {
        return ps_x509_fail(PS_INVALID_ARGUMENT,
                            "%s: no private key; one of P-256 in PEM without a passphrase is "
                            "allowed",
                            what);
    }
    st = ps_x509_check_key(what, *out);
    if (!ps_is_ok(&st)) {
        EVP_PKEY_free(*out);
        *out = NULL;
    }
    return st;
}

ps_status ps_x509_read_crl(const char *what, const char *pem, size_t n, X509_CRL **out)
{
    BIO *bio = BIO_new_mem_buf(pem, (int)n);

    *out = PEM_read_bio_X509_CRL(bio, NULL, no_passphrase, NULL);
    BIO_free(bio);
    if (*out == NULL && !was_end()) {
        return ps_x509_fail(PS_INVALID_ARGUMENT,
                            "%s: the list of revoked certificates cannot be "
                            "read",
                            what);
    }
    return ps_ok();
}

ps_status ps_x509_new_key(EVP_PKEY **out)
{
    ps_secret_keep_from_dumps();
    *out = EVP_EC_gen("P-256");
    return *out != NULL ? ps_ok() : ps_x509_fail(PS_INTERNAL, "a key cannot be drawn");
}

/* --- writing ------------------------------------------------------------------- */

/* Appends the text in `bio` to `pem` and frees `bio`, which may be NULL. `ok` is the result of the
 * call of libcrypto that wrote the text. Fails if `ok` is not 1. */
static ps_status take(ps_strbuf *pem, BIO *bio, int ok)
{
    char *text;
    long n = bio != NULL ? BIO_get_mem_data(bio, &text) : 0;

    if (ok == 1 && n > 0) {
        ps_strbuf_append(pem, text, (size_t)n);
    }
    BIO_free(bio);
    return ok == 1 ? ps_ok() : ps_x509_fail(PS_INTERNAL, "PEM cannot be written");
}

ps_status ps_x509_put(ps_strbuf *pem, X509 *certificate)
{
    BIO *bio = BIO_new(BIO_s_mem());

    return take(pem, bio, PEM_write_bio_X509(bio, certificate));
}

ps_status ps_x509_put_key(ps_strbuf *pem, EVP_PKEY *key)
{
    BIO *bio = BIO_new(BIO_s_mem());

    return take(pem, bio, PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL));
}

ps_status ps_x509_put_crl(ps_strbuf *pem, X509_CRL *crl)
{
    BIO *bio = BIO_new(BIO_s_mem());

    return take(pem, bio, PEM_write_bio_X509_CRL(bio, crl));
}

ps_status ps_x509_put_request(ps_strbuf *pem, X509_REQ *request)
{
    BIO *bio = BIO_new(BIO_s_mem());

    return take(pem, bio, PEM_write_bio_X509_REQ(bio, request));
}

/* --- alternative names ----------------------------------------------------------- */

/* Writes the bytes of an IPv4 or IPv6 address to `out`. Returns how many there are: 4, 16, or 0 if
 * `host` is no address. */
static int address_bytes(const char *host, uint8_t out[16])
{
    return inet_pton(AF_INET, host, out) == 1 ? 4 : inet_pton(AF_INET6, host, out) == 1 ? 16 : 0;
}

/* Returns whether `host` is a DNS name of at most 253 characters: labels of 1 to 63 letters, digits
 * and inner hyphens, separated by dots. */
static bool is_dns_name(const char *host)
{
    size_t n = strlen(host), label = 0;

    for (size_t i = 0; i <= n; i++) {
        char c = host[i];
        bool is_end = c == '.' || c == '\0';
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (is_end ? label == 0 || label > 63 || host[i - 1] == '-'
                   : !is_letter && (c != '-' || label == 0)) {
            return false;
        }
        label = is_end ? 0 : label + 1;
    }
    return n > 0 && n < PS_PKI_HOST_BYTES;
}

ps_status ps_subject_add_host(ps_subject *subject, const char *host)
{
    uint8_t bytes[16];

    if (address_bytes(host, bytes) == 0 && !is_dns_name(host)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "host \"%s\": a DNS name or an IP address without a port is allowed",
                       PS_SHORT(host, 100));
    }
    if (subject->host_count == PS_PKI_HOSTS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "host \"%s\": at most %d hosts are allowed",
                       PS_SHORT(host, 100), PS_PKI_HOSTS_MAX);
    }
    snprintf(subject->hosts[subject->host_count++], PS_PKI_HOST_BYTES, "%s", host);
    return ps_ok();
}

/* Appends an alternative name of `type` with these n bytes. Returns false if memory has run out. */
static bool push_name(GENERAL_NAMES *names, int type, const void *bytes, int n)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *text =
        ASN1_STRING_type_new(type == GEN_IPADD ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);

    if (name == NULL || text == NULL || ASN1_STRING_set(text, bytes, n) != 1) {
        ASN1_STRING_free(text);
        GENERAL_NAME_free(name);
        return false;
    }
    GENERAL_NAME_set0_value(name, type, text);
    return sk_GENERAL_NAME_push(names, name) > 0;
}

ps_status ps_x509_names(const ps_subject *subject, GENERAL_NAMES **out)
{
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    char uri[PS_PRINCIPAL_URI_BYTES];
    bool ok;

    ps_principal_uri(&subject->who, uri);
    ok = names != NULL && push_name(names, GEN_URI, uri, (int)strlen(uri));
    for (size_t i = 0; ok && i < subject->host_count; i++) {
        const char *host = subject->hosts[i];
        uint8_t bytes[16];
        int n = address_bytes(host, bytes);

        ok = n > 0 ? push_name(names, GEN_IPADD, bytes, n)
                   : push_name(names, GEN_DNS, host, (int)strlen(host));
    }
    if (!ok) {
        GENERAL_NAMES_free(names);
        names = NULL;
    }
    *out = names;
    return ok ? ps_ok() : ps_x509_fail(PS_INTERNAL, "alternative names cannot be made");
}

/* Adds one alternative name to `out`: a URI is its principal, of which there may be one; a DNS name
 * or an IP address is one of its hosts. Refuses names of other types. */
static ps_status read_name(const GENERAL_NAME *name, ps_subject *out)
{
    int type;
    const ASN1_STRING *value = GENERAL_NAME_get0_value(name, &type);
    const uint8_t *bytes = NULL;
    int n = 0;
    char text[PS_PKI_HOST_BYTES] = "";

    if (type == GEN_URI || type == GEN_DNS || type == GEN_IPADD) {
        bytes = ASN1_STRING_get0_data(value);
        n = ASN1_STRING_length(value);
    }
    if (type == GEN_IPADD && (n == 4 || n == 16)) {
        inet_ntop(n == 4 ? AF_INET : AF_INET6, bytes, text, sizeof text);
    } else if (type == GEN_IPADD || n <= 0 || n >= PS_PKI_HOST_BYTES ||
               memchr(bytes, '\0', (size_t)n) != NULL) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "an alternative name of type %d with %d bytes; URI, DNS and IP with 1 to "
                       "%d bytes are allowed",
                       type, n, PS_PKI_HOST_BYTES - 1);
    } else {
        memcpy(text, bytes, (size_t)n);
        text[n] = '\0';
    }
    if (type != GEN_URI) {
        return ps_subject_add_host(out, text);
    }
    if (out->who.kind != PS_PRINCIPAL_NONE) {
        return ps_fail(PS_INVALID_ARGUMENT, "two URIs; one is allowed");
    }
    return ps_principal_parse_uri(text, &out->who);
}

ps_status ps_x509_subject(const char *what, const GENERAL_NAMES *names, ps_subject *out)
{
    int count = names != NULL ? sk_GENERAL_NAME_num(names) : 0;
    ps_status st = ps_ok();

    *out = (ps_subject){0};
    for (int i = 0; i < count && ps_is_ok(&st); i++) {
        st = read_name(sk_GENERAL_NAME_value(names, i), out);
    }
    if (ps_is_ok(&st) && out->who.kind == PS_PRINCIPAL_NONE) {
        st = ps_fail(PS_INVALID_ARGUMENT, "names nobody; a URI psgd://KIND/NAME is needed");
    }
    return ps_wrap(st, "%s", what);
}

/* --- certificates ---------------------------------------------------------------- */

static bool read_time(const ASN1_TIME *time, int64_t *out)
{
    struct tm parts;

    if (ASN1_TIME_to_tm(time, &parts) != 1) {
        ERR_clear_error();
        return false;
    }
    *out = (int64_t)timegm(&parts);
    return true;
}

ps_status ps_x509_facts(const char *what, X509 *certificate, bool is_root, ps_certificate *out)
{
    const ASN1_INTEGER *serial = X509_get0_serialNumber(certificate);
    uint8_t digest[32];
    unsigned n = 0;
    BIGNUM *number;
    char *hex;
    ps_status st = ps_ok();

    *out = (ps_certificate){0};
    if (serial->length > (PS_PKI_SERIAL_BYTES - 1) / 2 || serial->length <= 0 ||
        (number = ASN1_INTEGER_to_BN(serial, NULL)) == NULL) {
        ERR_clear_error();
        return ps_fail(PS_INVALID_ARGUMENT, "%s: a serial number of %d bytes; 1 to 20 are allowed",
                       what, serial->length);
    }
    hex = BN_bn2hex(number);
    BN_free(number);
    snprintf(out->serial, sizeof out->serial, "%s", hex != NULL ? hex : "?");
    OPENSSL_free(hex);
    if (X509_digest(certificate, EVP_sha256(), digest, &n) != 1 || n != sizeof digest) {
        return ps_x509_fail(PS_INTERNAL, "%s: no fingerprint", what);
    }
    for (size_t i = 0; i < n; i++) {
        snprintf(out->fingerprint + 3 * i, 4, i + 1 < n ? "%02X:" : "%02X", digest[i]);
    }
    if (!read_time(X509_get0_notBefore(certificate), &out->not_before) ||
        !read_time(X509_get0_notAfter(certificate), &out->not_after)) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: its times cannot be read", what);
    }
    st = ps_x509_check_key(what, X509_get0_pubkey(certificate));
    if (ps_is_ok(&st) && !is_root) {
        GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);

        st = ps_x509_subject(what, names, &out->subject);
        GENERAL_NAMES_free(names);
    }
    ERR_clear_error();
    return st;
}
