/* SPDX-License-Identifier: Apache-2.0 */
/* preset_parallel_sgd.c - the codecs of Parallel-SGD by their names of all its
 * generations, by what they were meant to do (docs/presets.md says where the code differed).
 *
 * Most of them send increments: each worker steps by its own rule and sends what it
 * moved; the server adds what comes, as it comes. That is update delta under asp.
 * What a server sent quantised was its sum of displacements; here it is weights, with
 * error feedback. One or two bits of weights are too few even so: where both ways have
 * those, the server sends what it changes, fed back, and workers follow it (update dqlosp
 * with rounds of one step).
 */
#include "common/job/preset_parts.h"

#define INCREMENTS PS_UPDATE(PS_PICK("delta")) PS_LOCAL("adam", "0.001") PS_ASP

#define REPLICAS PS_UPDATE(PS_WITH("dqlosp", "\"steps\":1")) PS_LOCAL("momentum", "0.05")

#define SIGN PS_WITH("sign", "\"scale\":1")
#define SIGN_FED PS_WITH("sign", "\"error_feedback\":1")
#define THREE PS_WITH("ternary", "\"clip\":1")
#define THREE_FED PS_WITH("ternary", "\"clip\":1,\"error_feedback\":1")
#define TQN_FED PS_WITH("tqn", "\"error_feedback\":1")
#define FED(name, bits) PS_WITH(name, "\"bits\":" bits ",\"error_feedback\":1")

/* A step's delay and Adam's momentum do not go together; Seide et al. had AdaGrad. */
#define DELAYED ",\"optimizer\":{\"rule\":" PS_WITH("adagrad", "\"lr\":0.03") PS_WARM_UP("150") "}"

static const ps_preset presets[] = {
    /* --- among workers ------------------------------------------------------------ */
    {
        .name = "plain",
        .summary = "Parallel-SGD's client plain: each block's gradient to all that lack it, "
                   "without a server",
        .json = PS_PEERS_JOB("plain", "plain", "1"),
    },
    {
        .name = "unicast",
        .summary = "Parallel-SGD's client unicast: plain, which sends to each alone anyway",
        .json = PS_PEERS_JOB("unicast", "plain", "1"),
    },
    {
        .name = "ndc",
        .summary = "Parallel-SGD's client ndc (naive duplication): each block on two workers, who "
                   "say half of it each",
        .json = PS_PEERS_JOB("ndc", "ndc", "2"),
    },
    {
        .name = "ccdc",
        .summary = "Parallel-SGD's client ccdc: each block on two workers, XOR-coded multicasts "
                   "(Li et al. 2018)",
        .json = PS_PEERS_JOB("ccdc", "ccdc", "2"),
    },
    /* --- without loss ----------------------------------------------------------- */
    {
        .name = "ps",
        .summary = "Parallel-SGD's PS client with the server it had by default (grad): increments "
                   "added as they come",
        .json = PS_JOB("ps", INCREMENTS),
    },
    {
        .name = "ps_client",
        .summary = "ps in Parallel-SGD 0.7",
        .json = PS_JOB("ps_client", INCREMENTS),
    },
    {
        .name = "grad",
        .summary = "Parallel-SGD r0.4's server codec grad: increments of all workers added as "
                   "they come",
        .json = PS_JOB("grad", INCREMENTS),
    },
    {
        .name = "graddiff",
        .summary = "grad in Parallel-SGD r0.3",
        .json = PS_JOB("graddiff", INCREMENTS),
    },
    {
        .name = "grad_diff",
        .summary = "grad in Parallel-SGD 0.7",
        .json = PS_JOB("grad_diff", INCREMENTS),
    },
    {
        .name = "simple",
        .summary = "Parallel-SGD's server codec simple (ParaAveraging): displacements of all "
                   "workers added",
        .json = PS_JOB("simple", INCREMENTS),
    },
    {
        .name = "para_average",
        .summary = "simple in Parallel-SGD 0.7",
        .json = PS_JOB("para_average", INCREMENTS),
    },
    {
        .name = "adam_ps",
        .summary =
            "Parallel-SGD's adam_gradiff: Adam on the server, asynchronous; its rate was 3e-5",
        .json = PS_JOB("adam_ps", PS_ADAM PS_ASP),
    },
    {
        .name = "dc",
        .summary = "Parallel-SGD's server codec dc: DC-ASGD (ICML 2017) with an adaptive lambda "
                   "of 2",
        .json = PS_JOB("dc",
                       PS_UPDATE(PS_WITH("dc_asgd", "\"lambda\":2")) PS_RULE("sgd", "0.4") PS_ASP),
    },
    {
        .name = "dc_asgd",
        .summary = "dc in Parallel-SGD 0.7",
        .json = PS_JOB("dc_asgd",
                       PS_UPDATE(PS_WITH("dc_asgd", "\"lambda\":2")) PS_RULE("sgd", "0.4") PS_ASP),
    },
    {
        .name = "fast",
        .summary =
            "Parallel-SGD's double buffering (Seide et al. 2014): a step on the gradient before "
            "the last",
        .json = PS_JOB("fast", PS_UPDATE(PS_PICK("double_buffering")) DELAYED),
    },
    {
        .name = "fedavg",
        .summary = "Parallel-SGD's FedAvg: 150 steps alone, then the plain mean",
        .json = PS_JOB("fedavg", PS_UPDATE(PS_WITH("fedavg", "\"steps\":150,\"by_samples\":0"))
                                     PS_LOCAL("adam", "0.002")),
    },
    /* --- less than 32 bits a value up --------------------------------------------- */
    {
        .name = "qpa",
        .summary = "Parallel-SGD r0.4's server codec qpa with its client q1: 1 bit up, exact down",
        .json = PS_JOB("qpa", INCREMENTS PS_UP(SIGN)),
    },
    {
        .name = "q1",
        .summary = "Parallel-SGD's client codec q1: the sign times the standard deviation",
        .json = PS_JOB("q1", INCREMENTS PS_UP(SIGN)),
    },
    {
        .name = "qasgd1bit",
        .summary = "q1 in Parallel-SGD r0.3",
        .json = PS_JOB("qasgd1bit", INCREMENTS PS_UP(SIGN)),
    },
    {
        .name = "binarySGD",
        .summary = "q1 in Parallel-SGD 0.7",
        .json = PS_JOB("binarySGD", INCREMENTS PS_UP(SIGN)),
    },
    {
        .name = "q2",
        .summary = "Parallel-SGD's client codec q2: -1, 0 or 1 times the standard deviation",
        .json = PS_JOB("q2", INCREMENTS PS_UP(THREE)),
    },
    {
        .name = "qasgd2bit",
        .summary = "q2 in Parallel-SGD r0.3",
        .json = PS_JOB("qasgd2bit", INCREMENTS PS_UP(THREE)),
    },
    {
        .name = "ternarySGD",
        .summary = "q2 in Parallel-SGD 0.7",
        .json = PS_JOB("ternarySGD", INCREMENTS PS_UP(THREE)),
    },
    {
        .name = "stochastic_ternary_SGD",
        .summary = "Parallel-SGD 0.7's fitted ternary client, as tqn, with an exact server",
        .json = PS_JOB("stochastic_ternary_SGD", INCREMENTS PS_UP(PS_PICK("tqn"))),
    },
    /* --- down as well ------------------------------------------------------------- */
    {
        .name = "high_precision_weights_averaging",
        .summary = "Parallel-SGD 0.7's server that replies in full precision: as para_average",
        .json = PS_JOB("high_precision_weights_averaging", INCREMENTS),
    },
    {
        .name = "low_precision_weights_averaging",
        .summary = "Parallel-SGD 0.7's server that replies in 16 bits",
        .json = PS_JOB("low_precision_weights_averaging", INCREMENTS PS_DOWN(PS_PICK("f16"))),
    },
    {
        .name = "low_precision",
        .summary = "Parallel-SGD's LowPrecision client and server: 16 bits both ways",
        .json = PS_JOB("low_precision", INCREMENTS PS_BOTH(PS_PICK("f16"), PS_PICK("f16"))),
    },
    {
        .name = "1bit_weights_averaging",
        .summary = "Parallel-SGD 0.7's server that replies with 1 bit a value, its client too",
        .json = PS_JOB("1bit_weights_averaging", REPLICAS PS_BOTH(SIGN_FED, SIGN_FED)),
    },
    {
        .name = "2bit_weights_averaging",
        .summary = "Parallel-SGD 0.7's server that replies with -1, 0 or 1, its client too",
        .json = PS_JOB("2bit_weights_averaging", REPLICAS PS_BOTH(THREE_FED, THREE_FED)),
    },
    {
        .name = "binary",
        .summary = "Parallel-SGD's BinaryNet (BinaryConnect): 1 bit a value both ways",
        .json = PS_JOB("binary", REPLICAS PS_BOTH(SIGN_FED, SIGN_FED)),
    },
    {
        .name = "tqn",
        .summary = "Parallel-SGD's ternary network: fitted -1, 0 or 1 by draws, both ways",
        .json = PS_JOB("tqn", REPLICAS PS_BOTH(TQN_FED, TQN_FED)),
    },
    {
        .name = "quantization",
        .summary = "Parallel-SGD's quantization with QC and QS 8: uniform integers both ways",
        .json = PS_JOB("quantization",
                       INCREMENTS PS_BOTH(PS_WITH("intn", "\"bits\":8"), FED("intn", "8"))),
    },
    {
        .name = "sgq",
        .summary = "Parallel-SGD's sgq with 4 bits: cot grid and Huffman codes both ways, fed "
                   "back downwards",
        .json = PS_JOB("sgq", INCREMENTS PS_BOTH(PS_WITH("cot", "\"bits\":4"), FED("cot", "4"))),
    },
    {
        .name = "q_ext",
        .summary = "Parallel-SGD's q_ext with QC and QS 6: cot grid both ways, packed",
        .json = PS_JOB("q_ext", INCREMENTS PS_BOTH(PS_WITH("cot", "\"bits\":6,\"entropy\":0"),
                                                   PS_WITH("cot", "\"bits\":6,\"entropy\":0,"
                                                                  "\"error_feedback\":1"))),
    },
    {
        .name = "laq",
        .summary = "Parallel-SGD's laq with QC and QS 8: loss-aware quantisation both ways (Hou "
                   "and Kwok 2018)",
        .json = PS_JOB("laq", INCREMENTS PS_BOTH(PS_WITH("laq", "\"bits\":8,\"stochastic\":1"),
                                                 FED("laq", "8"))),
    },
    {
        .name = "dc_qsgd",
        .summary = "Parallel-SGD's DC_QSGD (q_ext_ext): delay compensation with a cot grid of 6 "
                   "bits both ways",
        .json = PS_JOB("dc_qsgd", PS_UPDATE(PS_WITH("dc_asgd", "\"lambda\":0.3,\"decay\":0"))
                                      PS_RULE("sgd", "0.4") PS_ASP PS_BOTH(
                                          PS_WITH("cot", "\"bits\":6"), FED("cot", "6"))),
    },
};

const ps_presets ps_presets_parallel_sgd = {presets, sizeof presets / sizeof presets[0]};
