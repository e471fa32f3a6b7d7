// SPDX-License-Identifier: Apache-2.0
// check_onnx.mjs FOLDER - runs the cases of make_onnx by onnxruntime: its logits
// must be those of our engine within 1e-4.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';

// Where npm put it is said by PSGD_ONNXRUNTIME; the package is no part of this tree.
const require = createRequire(path.join(process.env.PSGD_ONNXRUNTIME, 'package.json'));
const ort = require('onnxruntime-web');
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';

const folder = process.argv[2];
const floats = (file) => {
  const bytes = fs.readFileSync(path.join(folder, file));
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
};

// The greatest difference, in units of 1 or of the greatest value if that is more.
function worst(a, b) {
  if (a.length !== b.length) throw new Error(`${a.length} values instead of ${b.length}`);
  let difference = 0;
  let scale = 1;
  for (let i = 0; i < b.length; i++) {
    if (!Number.isFinite(a[i])) throw new Error(`value ${i} is ${a[i]}`);
    difference = Math.max(difference, Math.abs(a[i] - b[i]));
    scale = Math.max(scale, Math.abs(b[i]));
  }
  return difference / scale;
}

let failed = 0;
for (const { name, input, logits } of JSON.parse(fs.readFileSync(path.join(folder, 'cases.json')))) {
  const session = await ort.InferenceSession.create(fs.readFileSync(path.join(folder, `${name}.onnx`)));
  const x = floats(`${name}.input`);
  const expected = floats(`${name}.logits`);
  const run = async (values, dims) =>
    (await session.run({ input: new ort.Tensor('float32', values, dims) })).logits;
  const whole = await run(x, input);
  // The batch is symbolic: one sample alone comes out as it did among others.
  const one = await run(x.slice(0, x.length / input[0]), [1, ...input.slice(1)]);
  const errors = [worst(whole.data, expected),
    worst(one.data, expected.slice(0, expected.length / logits[0]))];
  const good = errors.every((e) => e <= 1e-4) && `${whole.dims}` === `${logits}`;
  // A case whose outputs are all alike would prove nothing.
  const spread = Math.max(...expected) - Math.min(...expected);
  if (!good || !(spread > 1e-3)) failed++;
  console.log(`${good ? 'ok' : 'WRONG'} ${name}: differs by ${errors.map((e) => e.toExponential(1))}, `
    + `spread ${spread.toPrecision(3)}`);
}
process.exit(failed ? 1 : 0);
