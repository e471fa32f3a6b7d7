/* SPDX-License-Identifier: Apache-2.0 */
/* spec_options.h - the flags that describe a job, for every subcommand that takes one. */
#ifndef PS_CLIENTS_PSGD_SPEC_OPTIONS_H
#define PS_CLIENTS_PSGD_SPEC_OPTIONS_H

#include "clients/psgd/build_spec.h"

/* The lines for an option table of `type`, whose `member` is a ps_spec_flags. */
/* clang-format off */
#define PS_SPEC_OPTIONS(type, member)                                                              \
    PS_OPTION_STRING(type, member.title, .name = "title", .letter = 't',                           \
                     .help = "name in the job's id and in its files"),                             \
    PS_OPTION_STRING(type, member.preset, .name = "preset", .letter = 'p', .metavar = "NAME",      \
                     .help = "choices for fields that are not given; see 'psgd presets'"),         \
    PS_OPTION_STRING(type, member.workers, .name = "workers", .letter = 'W',                       \
                     .metavar = "N|FILE",                                                          \
                     .help = "number of workers, or a worker.json that names them "                \
                             "(\"PS\" and \"Worker\")"),                                           \
    PS_OPTION_STRING(type, member.node_count, .name = "node-count", .letter = 'n',                 \
                     .metavar = "N", .help = "number of workers; the first N of a worker.json"),   \
    PS_OPTION_STRING(type, member.pservers, .name = "pservers", .letter = 'P', .metavar = "N",     \
                     .help = "number of parameter servers"),                                       \
    PS_OPTION_STRING(type, member.epochs, .name = "epochs", .letter = 'E', .metavar = "N",         \
                     .help = "passes over the training set"),                                      \
    PS_OPTION_STRING(type, member.max_steps, .name = "max-steps", .metavar = "N",                  \
                     .help = "steps of a worker after which the job is done; 0: no limit"),        \
    PS_OPTION_STRING(type, member.max_seconds, .name = "max-seconds", .metavar = "X",              \
                     .help = "seconds of training after which the job is done; 0: no limit"),      \
    PS_OPTION_STRING(type, member.stop_at, .name = "stop-at", .metavar = "METRIC=VALUE",           \
                     .help = "the job is done when an evaluation reaches the value, such as "      \
                             "accuracy=0.95 or loss=0.1"),                                         \
    PS_OPTION_STRING(type, member.block_size, .name = "block-size", .letter = 'b',                 \
                     .metavar = "N", .help = "samples in a block"),                                \
    PS_OPTION_STRING(type, member.seed, .name = "seed", .metavar = "N",                            \
                     .help = "seed of all random numbers"),                                        \
    PS_OPTION_STRING(type, member.model, .name = "model", .letter = 'm', .metavar = "NAME",        \
                     .help = "network: mlp, cnn, resnet20, ngram and others"),                     \
    PS_OPTION_STRING(type, member.widths, .name = "widths", .metavar = "N,N,...",                  \
                     .help = "units of the hidden layers"),                                        \
    PS_OPTION_STRING(type, member.activation, .name = "activation", .metavar = "NAME",             \
                     .help = "activation of the hidden layers: tanh, relu, sigmoid"),              \
    PS_OPTION_STRING(type, member.worker_threads, .name = "worker-threads", .metavar = "N",        \
                     .help = "threads of a worker for matrix products (trainer_count); results do "\
                             "not depend on it"),                                                  \
    PS_OPTION_STRING(type, member.data, .name = "data", .letter = 'D', .metavar = "NAME",          \
                     .help = "data set: mnist, glyphs, csv and others (psgd info data)"),          \
    PS_OPTION_STRING(type, member.train_limit, .name = "train-limit", .metavar = "N",              \
                     .help = "training samples to use; 0: all"),                                   \
    PS_OPTION_STRING(type, member.test_limit, .name = "test-limit", .metavar = "N",                \
                     .help = "test samples to use; 0: all"),                                       \
    PS_OPTION_STRING(type, member.assignment, .name = "assignment", .metavar = "NAME",             \
                     .help = "which worker holds which blocks: iid, duplicate, uneven, "           \
                             "modulo, whole (each worker the whole set)"),                         \
    PS_OPTION_STRING(type, member.redundancy, .name = "redundancy", .letter = 'r',                 \
                     .metavar = "N", .help = "workers that hold each block"),                      \
    PS_OPTION_STRING(type, member.optimizer, .name = "optimizer", .letter = 'O',                   \
                     .metavar = "NAME",                                                            \
                     .help = "optimizer: adam, sgd and others (psgd info optimizer); if workers "  \
                             "take local steps (update losp and others), the workers' one"),       \
    PS_OPTION_STRING(type, member.lr, .name = "lr", .metavar = "X",                                \
                     .help = "learning rate of that optimizer"),                                   \
    PS_OPTION_BOOL(type, member.maximise, .name = "maximise",                                      \
                   .help = "maximise the loss: gradient ascent"),                                  \
    PS_OPTION_STRING(type, member.server_optimizer, .name = "server-optimizer",                    \
                     .metavar = "NAME",                                                            \
                     .help = "optimizer of the servers, also if workers take local steps"),        \
    PS_OPTION_STRING(type, member.server_lr, .name = "server-lr", .metavar = "X",                  \
                     .help = "learning rate of the servers' optimizer"),                           \
    PS_OPTION_STRING(type, member.optimizer_side, .name = "optimizer-side",                        \
                     .choices = "server|worker", .help = "where the optimizer runs"),              \
    PS_OPTION_STRING(type, member.update, .name = "update", .metavar = "NAME",                     \
                     .help = "what workers send: gradient, localsgd, ... (psgd info update)"),     \
    PS_OPTION_STRING(type, member.local_steps, .name = "local-steps", .metavar = "N",              \
                     .help = "local steps of a worker between exchanges (K, k_steps)"),            \
    PS_OPTION_STRING(type, member.compensation, .name = "compensation", .metavar = "X",            \
                     .help = "update losp: factor of a worker's own increments in the weights "    \
                             "that it continues from: gamma / learning rate"),                     \
    PS_OPTION_STRING(type, member.exchange, .name = "exchange", .metavar = "NAME",                 \
                     .help = "pserver, or among workers: plain, ndc, ccdc, ring, tree"),           \
    PS_OPTION_STRING(type, member.consistency, .name = "consistency", .metavar = "NAME",           \
                     .help = "bsp (in step), ssp (bounded staleness), asp (no waiting) and "       \
                             "others (psgd info consistency)"),                                    \
    PS_OPTION_STRING(type, member.bound, .name = "bound", .metavar = "N",                          \
                     .help = "steps that a worker may be ahead under ssp"),                        \
    PS_OPTION_STRING(type, member.codec, .name = "codec", .metavar = "NAME",                       \
                     .help = "codec of both directions: f32, f16, int8 and others (psgd "          \
                             "info codec)"),                                                       \
    PS_OPTION_STRING(type, member.codec_up, .name = "codec-up", .metavar = "NAME",                 \
                     .help = "codec of what workers send"),                                        \
    PS_OPTION_STRING(type, member.codec_down, .name = "codec-down", .metavar = "NAME",             \
                     .help = "codec of what servers send"),                                        \
    PS_OPTION_STRING(type, member.bandwidth, .name = "bandwidth", .metavar = "BYTES",              \
                     .help = "bytes a second of a node's link, for computing deadlines"),          \
    PS_OPTION_LIST(type, member.metrics, .name = "metric", .letter = 'M', .metavar = "NAME",       \
                   .help = "metric beside the loss, instead of the job's"),                        \
    PS_OPTION_LIST(type, member.code, .name = "code", .metavar = "FILE",                           \
                   .help = "file of Lua code that the job brings along (docs/code.md)"),           \
    PS_OPTION_LIST(type, member.set, .name = "set", .letter = 's', .metavar = "PATH=VALUE",        \
                   .help = "set any field of the job, such as timeouts.lease_ms=5000 or "          \
                           "optimizer.rule.params.beta1=0.8")

/* The flags of checkpoints and recovery; `help_of` is PS_SHOWN, or PS_HIDDEN where they are refused. */
#define PS_SHOWN(text) text
#define PS_HIDDEN(text) NULL
#define PS_LOSS_OPTIONS(type, member, help_of)                                                     \
    PS_OPTION_STRING(type, member.checkpoint_every, .name = "checkpoint-every", .metavar = "N",    \
                     .help = help_of("steps from one checkpoint to the next, of which those are "  \
                                     "left out that come within about 1.5 s of one before; "       \
                                     "0: none")),                                                  \
    PS_OPTION_STRING(type, member.checkpoint_seconds, .name = "checkpoint-seconds",                \
                     .metavar = "X",                                                               \
                     .help = help_of("seconds from one checkpoint to the next; 0: none")),         \
    PS_OPTION_STRING(type, member.checkpoint_keep, .name = "checkpoint-keep", .metavar = "N",      \
                     .help = help_of("how many of the newest checkpoints are kept, 1 to 1000; "    \
                                     "default: 3")),                                               \
    PS_OPTION_STRING(type, member.recovery, .name = "recovery", .metavar = "restart|repeat|fail",  \
                     .help = help_of("what the loss of a worker or server does to the job; repeat: "\
                                     "as restart, but if ranks have no state of their own "        \
                                     "only the step under way is repeated; default: repeat with "  \
                                     "consistency bsp, else restart")),                            \
    PS_OPTION_STRING(type, member.max_restarts, .name = "max-restarts", .metavar = "N",            \
                     .help = help_of("how often the job may go on by itself, 1 to 100000; "        \
                                     "default: 1000")),                                            \
    PS_OPTION_STRING(type, member.on_divergence, .name = "on-divergence",                          \
                     .metavar = "fail|rollback",                                                   \
                     .help = help_of("what a loss or weight that is not finite does; rollback: "   \
                                     "the job goes back to a checkpoint at half the rate; "        \
                                     "default: fail")),                                            \
    PS_OPTION_STRING(type, member.max_rollbacks, .name = "max-rollbacks", .metavar = "N",          \
                     .help = help_of("how often the job may go back, 1 to 30; default: 3")),       \
    PS_OPTION_STRING(type, member.replicas, .name = "replicas", .metavar = "N",                    \
                     .help = help_of("servers that keep each shard and its rows, 1 or 2; with 2 "   \
                                     "the loss of a server repeats at most a step; default: 1")),  \
    PS_OPTION_STRING(type, member.replay_mib, .name = "replay-mib", .metavar = "N",                \
                     .help = help_of("contributions that each rank keeps, so that the loss of a "  \
                                     "server repeats at most a step, in MiB; default: 64")),       \
    PS_OPTION_STRING(type, member.workers_min, .name = "workers-min", .metavar = "N",              \
                     .help = help_of("worker processes with which the job begins, and goes on "    \
                                     "after a loss; it waits for them")),                          \
    PS_OPTION_STRING(type, member.workers_max, .name = "workers-max", .metavar = "N",              \
                     .help = help_of("worker processes up to which idle workers join the job"))
/* clang-format on */

#endif
