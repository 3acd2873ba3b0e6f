import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { HealthStatus, RuntimeSchema } from "../../api/gen/slipway/platform/v1/fleet_pb";
import { box, layout, shorten } from "./topology-layout";

const clusters = ["a", "b", "c"].map((name) => ({ name, status: name === "b" ? "Failed" : "Connected" }));
const runtimes = [
  create(RuntimeSchema, { name: "prod", online: true, health: HealthStatus.HEALTHY, clusters }),
  create(RuntimeSchema, { name: "lost", online: false }),
];

it("draws every part once, and none over another", () => {
  const { places, lines, height, width } = layout(runtimes, "acme", 0);
  expect(places.map((place) => place.kind)).toEqual([
    "platform",
    ..."runtime cluster cluster cluster cluster runtime cluster".split(" "),
  ]);
  expect(lines).toHaveLength(7);
  for (const one of places) {
    expect(one.y + box.height).toBeLessThanOrEqual(height);
    expect(one.x + box.width).toBeLessThanOrEqual(width);
    for (const other of places) {
      if (one === other || one.x !== other.x) continue;
      expect(Math.abs(one.y - other.y)).toBeGreaterThanOrEqual(box.height);
    }
  }
});

it("has the states", () => {
  const { places } = layout(runtimes, "acme", 0);
  const tone = (id: string) => places.find((place) => place.id === id)?.tone;
  expect(tone("runtime prod")).toBe("bad"); // one of its clusters fails
  expect(tone("cluster prod b")).toBe("bad");
  expect(tone("cluster prod a")).toBe("good");
  expect(tone("runtime lost")).toBe("bad");
  expect(tone("cluster lost ")).toBe("off"); // unknown
});

it("is the platform alone without runtimes", () => {
  expect(layout([], "acme", 0).places.map((place) => place.title)).toEqual(["Platform"]);
});

it("shortens to the width", () => {
  expect(shorten("abcdef", 4)).toBe("abc…");
  expect(shorten("abcd", 4)).toBe("abcd");
});
