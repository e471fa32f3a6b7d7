/* SPDX-License-Identifier: Apache-2.0 */
/* patience.h - how long a test waits for an event that must come before the test fails. */
#ifndef PS_TESTS_SUPPORT_PATIENCE_H
#define PS_TESTS_SUPPORT_PATIENCE_H

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { PS_TEST_PATIENCE_S = 300 }; /* sanitizers are slow, and the machine may have other work */
#define PS_TEST_PACE(quick, slow) slow
#else
enum { PS_TEST_PATIENCE_S = 60 };
#define PS_TEST_PACE(quick, slow) quick /* of two times, the one for this build */
#endif

#endif
