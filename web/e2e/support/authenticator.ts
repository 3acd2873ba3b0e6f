// An authenticator app: the codes of RFC 6238.

import { createHmac } from "node:crypto";

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

function decode(base32: string): Buffer {
  let bits = "";
  for (const letter of base32.trim()) bits += alphabet.indexOf(letter).toString(2).padStart(5, "0");
  return Buffer.from(bits.match(/.{8}/g)?.map((byte) => Number.parseInt(byte, 2)) ?? []);
}

/** codeOf is what the app shows, some steps from now. The platform takes the next step too. */
export function codeOf(secret: string, steps = 0): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + steps));
  const sum = createHmac("sha1", decode(secret)).update(counter).digest();
  const number = sum.readUInt32BE((sum.at(-1) ?? 0) & 15) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, "0");
}
