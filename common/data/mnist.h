/* SPDX-License-Identifier: Apache-2.0 */
/* mnist.h - the loader behind the source `mnist`, for any set in four IDX files. */
#ifndef PS_COMMON_DATA_MNIST_H
#define PS_COMMON_DATA_MNIST_H

#include "common/data/dataset.h"

/* Loads train images, train labels, test images and test labels, which must
 * have exactly the counts and shapes of `facts` (one channel, at most 256 classes). */
PS_MUST_USE ps_status ps_mnist_load(const char *folder, const ps_data_facts *facts,
                                    ps_dataset **out);

#endif
