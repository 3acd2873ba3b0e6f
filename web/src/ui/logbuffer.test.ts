import { expect, test } from "vitest";
import { cleanLine, LogBuffer } from "./logbuffer";

test("a buffer keeps the last lines and counts all", () => {
  const buffer = new LogBuffer(3);
  for (let i = 0; i < 10; i++) buffer.push({ at: undefined, source: "web", text: `line ${i}` });
  expect(buffer.snapshot().map((line) => line.text)).toEqual(["line 7", "line 8", "line 9"]);
  expect(buffer.snapshot().map((line) => line.id)).toEqual([7, 8, 9]);
  expect(buffer.total).toBe(10);
});

test("colours of terminals are taken out, and long lines are cut", () => {
  expect(cleanLine("\u001b[31mred\u001b[0m and \u001b[1;32mgreen\u001b[m")).toBe("red and green");
  expect(cleanLine("x".repeat(20_000)).length).toBeLessThan(8_300);
});
