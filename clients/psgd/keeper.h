/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.h - the keeper of a host: the process by which psgd launch starts services there, and
 * which ends them whatever happens to the launcher.
 *
 * psgd launch starts the keeper, as a child or over ssh, and writes commands to its standard input,
 * a JSON document in each line (line_pipe.h):
 *
 * {"do":"start","name":N,"program":P,"args":[..],"principal":W,"fingerprint":F}
 *                               starts a service; with W first asks for a certificate for W
 * {"do":"install","name":N,"pem":TEXT}          gives the certificate; the service is started
 * {"do":"end"}                  shuts the nodes down, then kills the coordinator, then ends
 * {"do":"kill"}                                 kills all services, then ends
 *
 * It writes to its standard output:
 *
 * {"say":"hello","version":V,"folder":DIR,"from":IP,"at":IP}    written first; sshd knows the
 *                               launcher's address as `from`, and this host's as `at`
 * {"say":"request","name":N,"pem":TEXT}         asks for a certificate
 * {"say":"line","name":N,"text":T}              a line of a service's standard output
 * {"say":"log","name":N,"text":T}               lines that a service has logged, with their ends
 * {"say":"ended","name":N,"text":T}             how a service ended, or why it could not be started
 *
 * Keys stay in the keeper's folder, which it removes when it ends. When its input ends, or is
 * silent for too long, the keeper kills the services. If the keeper is killed, the services die
 * too. */
#ifndef PS_CLIENTS_PSGD_KEEPER_H
#define PS_CLIENTS_PSGD_KEEPER_H

#include <stdint.h>

/* Runs the keeper of this host until the launcher ends it or is lost. `silence_us`: how long, in
 * microseconds, the launcher may write nothing; 0: for ever. Returns the exit code of the
 * program. */
int ps_keeper_run(int64_t silence_us);

/* Removes variables from the environment that would change the services or commands of a launch:
 * addresses, folders and identities of another cluster. */
void ps_keeper_clean_environment(void);

#endif
