// SPDX-License-Identifier: Apache-2.0
// As append.py; the calls are made by the threads of Node's pool, whichever is free.

import { open } from "node:fs/promises";
import { performance } from "node:perf_hooks";

const block = Buffer.alloc(500);
const [seconds, ...names] = process.argv.slice(2);
const until = performance.now() + Number(seconds) * 1000;
const took = [];

async function append(name) {
  const file = await open(name, "a");
  for (let begin; (begin = performance.now()) < until; ) {
    await file.write(block);
    await file.datasync();
    took.push(performance.now() - begin);
  }
  await file.close();
}

await Promise.all(names.map(append));
console.log("appended", took.length, (took.reduce((a, b) => a + b, 0) / took.length) * 1000);
