/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.h - the keeper of a host: the process by which psgd launch starts services there, and
 * which ends them whatever becomes of the launcher.
 *
 * It is started by psgd launch, as a child or over ssh, and is told what to do on its standard
 * input, a JSON document a line (line_pipe.h):
 *
 *   {"do":"start","name":N,"program":P,"args":[..],"principal":W,"fingerprint":F}
 *                                 starts a service; with W first asks for a certificate of W
 *   {"do":"install","name":N,"pem":TEXT}          the certificate; the service is started
 *   {"do":"end"}                                  has all services shut down, then ends
 *   {"do":"kill"}                                 kills them, then ends
 *
 * It answers on its standard output:
 *
 *   {"say":"hello","version":V,"folder":DIR,"from":IP,"at":IP}    first; addresses as sshd gives
 * them
 *   {"say":"request","name":N,"pem":TEXT}
 *   {"say":"line","name":N,"text":T}              a line of a service's standard output
 *   {"say":"log","name":N,"text":T}               what it logs
 *   {"say":"ended","name":N,"text":T}             how it ended, or why it could not be started
 *
 * Keys stay in its folder, which it removes when it ends. When its input ends, or is silent for
 * too long, it kills the services. They die with it if it is killed.
 */
#ifndef PS_CLIENTS_PSGD_KEEPER_H
#define PS_CLIENTS_PSGD_KEEPER_H

#include <stdint.h>

/* Keeps the host until the launcher ends it or is lost. `silence_us`: how long the launcher may say
 * nothing; 0: any time. Returns the exit code of the program. */
int ps_keeper_run(int64_t silence_us);

/* Removes from the environment what would change the services or commands of a launch: addresses,
 * folders and identities of another cluster. */
void ps_keeper_clean_environment(void);

#endif
