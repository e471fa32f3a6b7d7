/* SPDX-License-Identifier: Apache-2.0 */
/* preset_parallel_sgd.c - the codecs of all generations of Parallel-SGD by their names, after
 * what they were meant to do (docs/presets.md lists where the code differed).
 *
 * Most of them send increments: each worker steps by its own rule and sends its change of the
 * weights, which the server adds on arrival. That is update delta under asp. The older servers
 * quantised their sum of changes. Here weights are quantised, with error feedback. One or two
 * bits are too few for weights. So where both directions have one or two bits, the server sends
 * its changes with error feedback, and workers have replicas (update dqlosp with rounds of one
 * step).
 */
#include "common/job/preset_impl.h"

#define INCREMENTS PS_UPDATE(PS_PICK("delta")) PS_LOCAL("adam", "0.001") PS_ASP

#define REPLICAS PS_UPDATE(PS_WITH("dqlosp", "\"steps\":1")) PS_LOCAL("momentum", "0.05")

#define SIGN PS_WITH("sign", "\"scale\":1")
#define SIGN_FED PS_WITH("sign", "\"error_feedback\":1")
#define THREE PS_WITH("ternary", "\"clip\":1")
#define THREE_FED PS_WITH("ternary", "\"clip\":1,\"error_feedback\":1")
#define TQN_FED PS_WITH("tqn", "\"error_feedback\":1")
#define FED(name, bits) PS_WITH(name, "\"bits\":" bits ",\"error_feedback\":1")
/* The learning rate falls to zero. At a constant rate the last steps leave some jobs far from the
 * optimum. */
#define DC_ASGD                                                                                    \
    PS_UPDATE(PS_WITH("dc_asgd", "\"lambda\":2"))                                                  \
    ",\"optimizer\":{\"rule\":" PS_WITH("sgd", "\"lr\":0.3") ",\"schedule\":" PS_WITH(             \
        "polynomial", "\"power\":0.5") "}" PS_ASP
#define COMPENSATED                                                                                \
    PS_UPDATE(PS_WITH("dc_asgd", "\"lambda\":0.3,\"decay\":0"))                                    \
    ",\"optimizer\":{\"rule\":" PS_WITH("sgd", "\"lr\":0.3") PS_FALLING("0") "}" PS_ASP PS_BOTH(   \
        PS_WITH("cot", "\"bits\":6"), FED("cot", "6"))

/* AdaGrad, as Seide et al. used, and not Adam: momentum makes training with a delay of one step
 * unstable. */
#define DELAYED ",\"optimizer\":{\"rule\":" PS_WITH("adagrad", "\"lr\":0.03") PS_WARM_UP("150") "}"

static const ps_preset presets[] = {
    /* --- among workers ------------------------------------------------------------ */
    PS_PEERS_PRESET("plain",
                    "Parallel-SGD's client plain: each block's gradient to all that lack it, "
                    "without a server",
                    "plain", "1"),
    PS_PEERS_PRESET(
        "unicast",
        "Parallel-SGD's client unicast: plain, which sends to each worker separately anyway",
        "plain", "1"),
    PS_PEERS_PRESET(
        "ndc",
        "Parallel-SGD's client ndc (naive duplication): each block on two workers, each "
        "sends half of it",
        "ndc", "2"),
    PS_PEERS_PRESET("ccdc",
                    "Parallel-SGD's client ccdc: each block on two workers, XOR-coded multicasts "
                    "(Li et al. 2018)",
                    "ccdc", "2"),
    /* --- lossless ------------------------------------------------------------------- */
    PS_PRESET("ps",
              "Parallel-SGD's PS client with the server it had by default (grad): increments "
              "added on arrival",
              INCREMENTS),
    PS_PRESET("ps_client", "ps in Parallel-SGD 0.7", INCREMENTS),
    PS_PRESET("grad",
              "Parallel-SGD r0.4's server codec grad: increments of all workers added on "
              "arrival",
              INCREMENTS),
    PS_PRESET("graddiff", "grad in Parallel-SGD r0.3", INCREMENTS),
    PS_PRESET("grad_diff", "grad in Parallel-SGD 0.7", INCREMENTS),
    PS_PRESET("full_precision", "Parallel-SGD's FullPrecision: grad, all of it as float32",
              INCREMENTS),
    PS_PRESET("simple",
              "Parallel-SGD's server codec simple (ParaAveraging): displacements of all "
              "workers added",
              INCREMENTS),
    PS_PRESET("para_average", "simple in Parallel-SGD 0.7", INCREMENTS),
    PS_PRESET("adam_ps",
              "Parallel-SGD's adam_gradiff: Adam on the server, asynchronous; its rate was 3e-5",
              PS_ADAM PS_ASP),
    PS_PRESET("adam_gradiff", "adam_ps by its file in Parallel-SGD", PS_ADAM PS_ASP),
    PS_PRESET("dc",
              "Parallel-SGD's server codec dc: DC-ASGD (ICML 2017) with an adaptive lambda "
              "of 2",
              DC_ASGD),
    PS_PRESET("dc_asgd", "dc in Parallel-SGD 0.7", DC_ASGD),
    PS_PRESET("fast",
              "Parallel-SGD's double buffering (Seide et al. 2014): a step on the gradient before "
              "the last",
              PS_UPDATE(PS_PICK("double_buffering")) DELAYED),
    PS_PRESET("fedavg", "Parallel-SGD's FedAvg: 150 steps alone, then the plain mean",
              PS_UPDATE(PS_WITH("fedavg", "\"steps\":150,\"by_samples\":0"))
                  PS_LOCAL("adam", "0.002")),
    /* --- fewer than 32 bits a value up ---------------------------------------------- */
    PS_PRESET("qpa",
              "Parallel-SGD r0.4's server codec qpa with its client q1: 1 bit up, exact down",
              INCREMENTS PS_UP(SIGN)),
    PS_PRESET("q1", "Parallel-SGD's client codec q1: the sign times the standard deviation",
              INCREMENTS PS_UP(SIGN)),
    PS_PRESET("qasgd1bit", "q1 in Parallel-SGD r0.3", INCREMENTS PS_UP(SIGN)),
    PS_PRESET("binarySGD", "q1 in Parallel-SGD 0.7", INCREMENTS PS_UP(SIGN)),
    PS_PRESET("q2", "Parallel-SGD's client codec q2: -1, 0 or 1 times the standard deviation",
              INCREMENTS PS_UP(THREE)),
    PS_PRESET("qasgd2bit", "q2 in Parallel-SGD r0.3", INCREMENTS PS_UP(THREE)),
    PS_PRESET("ternarySGD", "q2 in Parallel-SGD 0.7", INCREMENTS PS_UP(THREE)),
    PS_PRESET("stochastic_ternary_SGD",
              "Parallel-SGD 0.7's fitted ternary client, as tqn, with an exact server",
              INCREMENTS PS_UP(PS_PICK("tqn"))),
    /* --- fewer bits down too ------------------------------------------------------ */
    PS_PRESET("high_precision_weights_averaging",
              "Parallel-SGD 0.7's server that replies in full precision: as para_average",
              INCREMENTS),
    PS_PRESET("low_precision_weights_averaging",
              "Parallel-SGD 0.7's server that replies in 16 bits",
              INCREMENTS PS_DOWN(PS_PICK("f16"))),
    PS_PRESET("low_precision", "Parallel-SGD's LowPrecision client and server: 16 bits both ways",
              INCREMENTS PS_BOTH(PS_PICK("f16"), PS_PICK("f16"))),
    PS_PRESET("1bit_weights_averaging",
              "Parallel-SGD 0.7's server that replies with 1 bit a value, its client too",
              REPLICAS PS_BOTH(SIGN_FED, SIGN_FED)),
    PS_PRESET("2bit_weights_averaging",
              "Parallel-SGD 0.7's server that replies with -1, 0 or 1, its client too",
              REPLICAS PS_BOTH(THREE_FED, THREE_FED)),
    PS_PRESET("binary", "Parallel-SGD's BinaryNet (BinaryConnect): 1 bit a value both ways",
              REPLICAS PS_BOTH(SIGN_FED, SIGN_FED)),
    PS_PRESET("tqn", "Parallel-SGD's ternary network: fitted -1, 0 or 1 by draws, both ways",
              REPLICAS PS_BOTH(TQN_FED, TQN_FED)),
    PS_PRESET("quantization",
              "Parallel-SGD's quantization with QC and QS 8: uniform integers both ways",
              INCREMENTS PS_BOTH(PS_WITH("intn", "\"bits\":8"), FED("intn", "8"))),
    PS_PRESET("sgq",
              "Parallel-SGD's sgq with 4 bits: cot grid and Huffman codes both ways, error "
              "feedback down",
              INCREMENTS PS_BOTH(PS_WITH("cot", "\"bits\":4"), FED("cot", "4"))),
    PS_PRESET("q_ext", "Parallel-SGD's q_ext with QC and QS 6: cot grid both ways, packed",
              INCREMENTS PS_BOTH(PS_WITH("cot", "\"bits\":6,\"entropy\":0"),
                                 PS_WITH("cot", "\"bits\":6,\"entropy\":0,"
                                                "\"error_feedback\":1"))),
    PS_PRESET("laq",
              "Parallel-SGD's laq with QC and QS 8: loss-aware quantisation both ways (Hou "
              "and Kwok 2018)",
              INCREMENTS PS_BOTH(PS_WITH("laq", "\"bits\":8,\"stochastic\":1"), FED("laq", "8"))),
    PS_PRESET("dc_qsgd",
              "Parallel-SGD's DC_QSGD (q_ext_ext): delay compensation with a cot grid of 6 "
              "bits both ways",
              COMPENSATED),
    PS_PRESET("q_ext_ext", "dc_qsgd by its file in Parallel-SGD", COMPENSATED),
};

const ps_presets ps_presets_parallel_sgd = {presets, sizeof presets / sizeof presets[0]};
