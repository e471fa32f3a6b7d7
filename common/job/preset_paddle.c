/* SPDX-License-Identifier: Apache-2.0 */
/* preset_paddle.c - the modes of PaddlePaddle's parameter servers, after what their code does:
 * Fleet (a_sync, k_steps) and v2 (is_async, num_batches_per_send_parameter). */
#include "common/job/preset_impl.h"

/* clang-format off */
#define NUMBER(name) "{\"name\":\"" name "\"},"
#define HASHED(name) "{\"name\":\"" name "\",\"kind\":\"hashed\",\"params\":{\"buckets\":10000}},"
/* UCI Adult: 6 numbers, 8 columns of words, and the class: an income above 50,000 or not. */
#define ADULT                                                                                      \
    "\"data\":{\"name\":\"csv\",\"folder\":\"ctr\",\"files\":[\"adult.csv\"],\"columns\":["        \
    NUMBER("age") NUMBER("fnlwgt") NUMBER("education_num") NUMBER("capital_gain")                  \
    NUMBER("capital_loss") NUMBER("hr_per_week") HASHED("type_employer") HASHED("education")       \
    HASHED("marital") HASHED("occupation") HASHED("relationship") HASHED("race") HASHED("sex")     \
    HASHED("country") "{\"name\":\"income\",\"kind\":\"label\","                                   \
    "\"params\":{\"classes\":2}}],\"train_limit\":24000,\"test_limit\":6000}"
#define CTR(title, table)                                                                          \
    "{\"title\":\"" title                                                                         \
    "\",\"workers\":2,\"pservers\":2,\"epochs\":4,\"block_size\":32,"                              \
    "\"model\":{\"preset\":\"wide_deep\",\"table\":" PS_PICK(table) "}," ADULT                     \
    ",\"metrics\":[" PS_PICK("auc") "," PS_PICK("accuracy") "]"
/* clang-format on */

static const ps_preset presets[] = {
    PS_PRESET("sync",
              "PaddlePaddle Fleet's a_sync off: in step, the servers' rule on the mean "
              "gradient",
              PS_ADAM PS_BSP),
    PS_PRESET("async",
              "PaddlePaddle Fleet's a_sync with k_steps 0: each gradient applied on arrival",
              PS_ADAM PS_ASP),
    PS_PRESET("half_async",
              "PaddlePaddle Fleet's half-async: a step on the sum of what has arrived",
              PS_ADAM PS_CONSISTENCY(PS_PICK("half_async"))),
    PS_PRESET("geo",
              "PaddlePaddle Fleet's a_sync with k_steps 25: geo, the sum of all local "
              "changes of workers, with lag",
              PS_UPDATE(PS_WITH("geo_sum_lag", "\"steps\":25")) PS_LOCAL("sgd", "0.1") PS_ASP),
    {
        .name = "fleet_ctr",
        .summary =
            "PaddlePaddle Fleet's wide & deep with its embeddings as sparse tables on the "
            "servers, on adult.csv: rows created when their id occurs, each gradient applied on "
            "arrival",
        .json = CTR("fleet_ctr", "sparse") PS_RULE("adagrad", "0.01") PS_ASP "}",
    },
    {
        .name = "fleet_ctr_geo",
        .summary = "PaddlePaddle Fleet's wide & deep under geo with k_steps 25, on adult.csv: each "
                   "worker trains the rows that it meets and sends what it changed",
        .json = CTR("fleet_ctr_geo", "sparse") PS_UPDATE(PS_WITH("geo_sum_lag", "\"steps\":25"))
            PS_LOCAL("adagrad", "0.01") PS_ASP "}",
    },
    PS_PRESET("paddle_v2_sync", "PaddlePaddle v2 without is_async: in step, the servers' rule",
              PS_ADAM PS_BSP),
    PS_PRESET("paddle_v2_async",
              "PaddlePaddle v2's is_async with async_lagged_grad_discard_ratio 1.5: applied "
              "on arrival, dropped if it is late",
              PS_ADAM PS_CONSISTENCY(PS_WITH("lag_discard", "\"ratio\":1.5"))),
    PS_PRESET("paddle_v2_average",
              "PaddlePaddle v2's center_parameter_update_method average with "
              "num_batches_per_send_parameter 8: the mean of replicas",
              PS_UPDATE(PS_WITH("localsgd", "\"steps\":8")) PS_LOCAL("momentum", "0.05") PS_BSP),
    PS_PRESET("paddle_v2_elastic_average",
              "PaddlePaddle v2's center_parameter_update_method elastic_average with "
              "num_batches_per_send_parameter 8: replicas and a centre (EASGD)",
              PS_UPDATE(PS_WITH("easgd", "\"steps\":8")) PS_LOCAL("momentum", "0.05") PS_BSP),
};

const ps_presets ps_presets_paddle = {presets, sizeof presets / sizeof presets[0]};
