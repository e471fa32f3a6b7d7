/* SPDX-License-Identifier: Apache-2.0 */
/* protect.c - see protect.h. */
#include "common/rpc/protect.h"

#include "common/base/address.h"
#include "common/base/log.h"

static bool has_dir(const ps_protect_conf *conf)
{
    return conf->tls_dir != NULL && conf->tls_dir[0] != '\0';
}

static bool has_tokens(const ps_protect_conf *conf)
{
    return conf->tokens != NULL && conf->tokens[0] != '\0';
}

/* Returns whether only clients on this host can connect to the address `listen`. */
static bool is_loopback(const char *listen)
{
    ps_address address;
    ps_status st = ps_address_parse(listen, "127.0.0.1", 0, &address);

    return ps_is_ok(&st) && ps_address_is_loopback(&address);
}

ps_status ps_protect_check_at(const ps_protect_conf *conf, const char *flag, const char *at,
                              const char *more)
{
    if (has_dir(conf) || conf->is_insecure || is_loopback(at)) {
        return ps_ok();
    }
    return ps_fail(
        PS_INVALID_ARGUMENT,
        "%s %s: other hosts could connect, and the link is not protected. Get a certificate by "
        "'psgd pki request %s/NAME --host HOST --tls-dir DIR' (docs/tls.md), then start by "
        "'%s %s %s --tls-dir DIR%s'. On a network where everybody is trusted, --insecure does "
        "without a certificate",
        flag, PS_SHORT(at, 80), ps_principal_kind_name(conf->kind), conf->program, flag,
        PS_SHORT(at, 80), more);
}

ps_status ps_protect_check(const ps_protect_conf *conf)
{
    if (has_dir(conf) && conf->is_insecure) {
        return ps_fail(PS_INVALID_ARGUMENT, "--tls-dir and --insecure exclude each other");
    }
    if (has_tokens(conf) && !has_dir(conf)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "--tokens needs --tls-dir: in plaintext everybody could read a token");
    }
    return ps_protect_check_at(conf, "--listen", conf->listen, "");
}

ps_status ps_protect_loop(ps_loop *loop, const ps_protect_conf *conf, ps_tls **tls)
{
    const ps_certificate *own;
    char who[PS_PRINCIPAL_TEXT_BYTES], until[PS_PKI_TIME_BYTES];
    ps_status st;

    *tls = NULL;
    if (!has_dir(conf)) {
        return ps_ok();
    }
    st = ps_tls_create(conf->tls_dir, tls);
    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "--tls-dir");
    }
    own = ps_tls_own(*tls);
    if (own->subject.who.kind != conf->kind) {
        st = ps_fail(PS_FAILED_PRECONDITION,
                     "--tls-dir %s: its certificate is of %s; %s needs one "
                     "of %s/NAME",
                     PS_SHORT(conf->tls_dir, 160), ps_principal_text(&own->subject.who, who),
                     conf->program, ps_principal_kind_name(conf->kind));
    } else if (has_tokens(conf)) {
        st = ps_wrap(ps_tls_take_tokens(*tls, conf->tokens), "--tokens");
    }
    if (!ps_is_ok(&st)) {
        ps_tls_release(*tls);
        *tls = NULL;
        return st;
    }
    ps_loop_use_tls(loop, *tls);
    ps_log(PS_LOG_INFO, "tls", "TLS as %s, certificate %s until %s",
           ps_principal_text(&own->subject.who, who), own->serial,
           ps_pki_time(own->not_after, until));
    return ps_ok();
}

ps_protection ps_protection_of(const ps_loop *loop, const char *listen)
{
    return ps_loop_tls(loop) != NULL ? PS_PROTECTION_TLS
           : is_loopback(listen)     ? PS_PROTECTION_LOOPBACK
                                     : PS_PROTECTION_INSECURE;
}
