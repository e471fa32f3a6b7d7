/* SPDX-License-Identifier: Apache-2.0 */
/* service_info.c - ListPresets and GetServerInfo: what this build can do. */
#include "common/base/xalloc.h"
#include "common/job/catalogue.h"
#include "common/rpc/accept.h"
#include "common/rpc/guard.h"
#include "services/coordinator/api/service.h"
#include "services/coordinator/domain/job_message.h"

void ps_serve_list_presets(void *service, const ProtobufCMessage *request, ps_payload *payload,
                           ps_call *call)
{
    Psgd__V1__ListPresetsResponse *reply = ps_catalogue_presets();

    (void)service;
    (void)request;
    (void)payload;
    ps_call_reply(call, &reply->base);
    psgd__v1__list_presets_response__free_unpacked(reply, NULL);
}

void ps_serve_get_server_info(void *service, const ProtobufCMessage *request, ps_payload *payload,
                              ps_call *call)
{
    Psgd__V1__GetServerInfoResponse *reply = ps_catalogue_info();
    ps_coordinator *c = service;
    bool is_low = false;

    (void)request;
    (void)payload;
    ps_text_set(&reply->address, c->address);
    ps_time_set(&reply->start_time, c->start_wall_us);
    reply->max_chunk_bytes = PS_PAYLOAD_MAX;
    reply->disk = ps_xcalloc(1, sizeof *reply->disk);
    psgd__v1__disk_info__init(reply->disk);
    reply->disk->free_bytes = ps_room_free(&c->room, &is_low);
    reply->disk->needed_bytes = c->room.min_free_bytes;
    reply->disk->is_low = is_low;
    reply->connections_refused = ps_accept_refused();
    reply->links = c->conf.links;
    reply->connections_closed = ps_guard_closed();
    ps_call_reply(call, &reply->base);
    psgd__v1__get_server_info_response__free_unpacked(reply, NULL);
}
