import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameCounter } from "../src/pcapng";

function block(kind: number, body: number[], little = true): number[] {
  const length = 12 + body.length;
  const word = (value: number): number[] => {
    const view = new DataView(new ArrayBuffer(4));
    view.setUint32(0, value, little);
    return [...new Uint8Array(view.buffer)];
  };
  return [...word(kind), ...word(length), ...body, ...word(length)];
}

const section = (little: boolean): number[] => {
  const magic = [0x1a, 0x2b, 0x3c, 0x4d];
  return block(0x0a0d0d0a, [...(little ? magic.reverse() : magic), 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255], little);
};

test("packets are counted independent of chunk boundaries", () => {
  for (const little of [true, false]) {
    const frame = block(6, Array.from({ length: 32 }, (_, at) => at), little);
    const file = [...section(little), ...block(1, [1, 0, 0, 0, 0, 0, 0, 0], little), ...frame, ...frame, ...frame];
    for (const size of [1, 5, 12, 13, file.length]) {
      const counter = new FrameCounter();
      for (let at = 0; at < file.length; at += size) counter.take(Uint8Array.from(file.slice(at, at + size)));
      assert.equal(counter.frames, 3, `${size} ${little}`);
      assert.equal(counter.isBroken, false);
      assert.equal(counter.whole, file.length);
      const cut = new FrameCounter();
      cut.take(Uint8Array.from(file.slice(0, file.length - 1)));
      assert.equal(cut.whole, file.length - frame.length);
    }
  }
});

test("a stream that is not pcapng is detected", () => {
  const counter = new FrameCounter();
  counter.take(new TextEncoder().encode("{ \"error\": \"no\" }"));
  assert.ok(counter.isBroken);
});
