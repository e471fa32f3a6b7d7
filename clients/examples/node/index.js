#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// index.js - submits a job to a psgd coordinator, follows it, saves its files.
//
//     node index.js [--coordinator HOST:PORT] [--tls-dir DIR] [--output DIR] [--proto DIR] JOB.json
//
// With --tls-dir the link is TLS: DIR has root.pem, and identity.pem unless the environment has a
// token of 'psgd token' in PSGD_TOKEN.
//
// JOB.json is a JobSpec in protobuf's JSON form. Nothing of psgd is needed but
// its .proto files. Exit code: 0 done, 1 the job failed, 2 no connection, 4 a bad
// job.
'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const util = require('node:util');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

function usage(message) {
  console.error(`${message}\nnode index.js [--coordinator HOST:PORT] [--tls-dir DIR] [--output DIR] JOB.json`);
  process.exit(4);
}

// Under TLS the coordinator's certificate must name the host of its address.
function credentials(tlsDir) {
  if (tlsDir === undefined) return grpc.credentials.createInsecure();
  const root = fs.readFileSync(path.join(tlsDir, 'root.pem'));
  const token = process.env.PSGD_TOKEN;
  if (!token) {
    const identity = fs.readFileSync(path.join(tlsDir, 'identity.pem')); // the key and the certificate
    return grpc.credentials.createSsl(root, identity, identity);
  }
  const bearer = grpc.credentials.createFromMetadataGenerator((_, done) => {
    const metadata = new grpc.Metadata();
    metadata.set('authorization', `Bearer ${token}`);
    done(null, metadata);
  });
  return grpc.credentials.combineChannelCredentials(grpc.credentials.createSsl(root), bearer);
}

function connect(address, tlsDir, proto) {
  const definition = protoLoader.loadSync('psgd/v1/coordinator.proto', {
    includeDirs: [proto],
    longs: Number, // sizes and steps stay below 2^53
    enums: String,
    defaults: true,
  });
  const { psgd } = grpc.loadPackageDefinition(definition);
  return new psgd.v1.CoordinatorService(address, credentials(tlsDir));
}

// A unary call as a promise.
function call(api, method, request) {
  return new Promise((resolve, reject) => {
    const options = { deadline: Date.now() + 10000 };
    api[method](request, options, (error, reply) => (error ? reject(error) : resolve(reply)));
  });
}

function show(event) {
  const { job } = event;
  const p = job.progress;
  if (event.kind === 'JOB_EVENT_KIND_STATE') {
    console.log(job.state, job.reason, job.message);
  } else if (event.kind === 'JOB_EVENT_KIND_METRICS') {
    console.log('test set:', job.result);
  } else if (p && p.step > 0) { // before, nothing is measured
    console.log(`step ${p.step}/${p.totalSteps}  loss ${p.loss.toFixed(4)}  ` +
      `accuracy ${p.accuracy.toFixed(3)}  ${p.samplesPerSecond.toFixed(0)} samples/s`);
  }
}

// Milliseconds; the next of several coordinators leads after 1 min at the latest.
const PATIENCE = 90000;

// Prints a job's events until it is over; opens the stream again when it breaks.
async function watch(api, jobId) {
  let afterSequence = 0;
  let lostAt = null;
  for (;;) {
    try {
      if (lostAt !== null) { // a stream may be silent for long, so ask whether it is back
        await call(api, 'GetJob', { jobId });
        lostAt = null;
      }
      for await (const event of api.WatchJob({ jobId, afterSequence })) {
        afterSequence = event.sequence;
        show(event);
      }
      return (await call(api, 'GetJob', { jobId })).job;
    } catch (error) {
      const mayPass = [grpc.status.UNAVAILABLE, grpc.status.DEADLINE_EXCEEDED];
      lostAt ??= Date.now();
      if (!mayPass.includes(error.code) || Date.now() - lostAt > PATIENCE) throw error;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}

// CRC-32 as in zlib, a table of 256 entries.
const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k += 1) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1;
  return c;
});

function crc32(bytes) {
  let c = 0xffffffff;
  for (const byte of bytes) c = CRC[(c ^ byte) & 0xff] ^ (c >>> 8);
  return (c ^ 0xffffffff) >>> 0;
}

// Writes all files of a job; every chunk and every file is checked.
async function saveFiles(api, jobId, folder) {
  fs.mkdirSync(folder, { recursive: true });
  let chunks = [];
  let size = 0;
  for await (const chunk of api.ReclaimLogs({ jobId })) {
    const { name, sha256 } = chunk.artifact;
    if (!/^([A-Za-z0-9_()-][A-Za-z0-9._()-]*\/)?[A-Za-z0-9_()-][A-Za-z0-9._()-]*$/.test(name) || name.includes('..')) {
      throw new Error(`not a name for a file: ${JSON.stringify(name)}`);
    }
    if (chunk.offset !== size || crc32(chunk.payload) !== chunk.crc32) {
      throw new Error(`${name}: a chunk is missing or damaged`);
    }
    chunks.push(chunk.payload);
    size += chunk.payload.length;
    if (chunk.last) {
      const data = Buffer.concat(chunks);
      const digest = crypto.createHash('sha256').update(data).digest('hex');
      if (sha256 !== '' && sha256 !== digest) throw new Error(`${name}: wrong SHA-256`);
      fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
      fs.writeFileSync(path.join(folder, name), data);
      console.log(`saved ${path.join(folder, name)} (${size} bytes)`);
      chunks = [];
      size = 0;
    }
  }
}

async function main() {
  const { values, positionals } = util.parseArgs({
    allowPositionals: true,
    options: {
      coordinator: { type: 'string', default: '127.0.0.1:15386' },
      'tls-dir': { type: 'string' },
      output: { type: 'string' },
      proto: { type: 'string', default: path.join(__dirname, '..', '..', '..', 'proto') },
    },
  });
  if (positionals.length !== 1) usage('one JOB.json is wanted');
  const spec = JSON.parse(fs.readFileSync(positionals[0], 'utf8'));

  const api = connect(values.coordinator, values['tls-dir'], values.proto);
  let { job } = await call(api, 'SubmitJob', { spec });
  console.log('job', job.id);
  job = await watch(api, job.id);
  await saveFiles(api, job.id, values.output || job.id);
  console.log(job.state, job.result);
  api.close();
  return job.state === 'JOB_STATE_DONE' ? 0 : 1;
}

main().then(
  (code) => { process.exitCode = code; },
  (error) => {
    console.error(error.details || error.message);
    const unreachable = [grpc.status.UNAVAILABLE, grpc.status.DEADLINE_EXCEEDED];
    const badJob = error.code === grpc.status.INVALID_ARGUMENT || error instanceof SyntaxError ||
      error.code === 'ENOENT';
    process.exit(unreachable.includes(error.code) ? 2 : badJob ? 4 : 1);
  },
);
