import { expect, test } from "vitest";
import { everyPage } from "./pages";

const book: Record<string, { items: number[]; next: string }> = {
  "": { items: [1, 2], next: "b" },
  b: { items: [3], next: "c" },
  c: { items: [4], next: "" },
};
const read = (token: string) => {
  const page = book[token];
  return page ? Promise.resolve(page) : Promise.reject(new Error(`no page ${token}`));
};

test("all pages are read in order", async () => {
  expect(await everyPage(read)).toEqual({ items: [1, 2, 3, 4], cut: false });
});

test("a list that does not end is cut, and says so", async () => {
  expect(await everyPage(read, 3)).toEqual({ items: [1, 2, 3], cut: true });
});
