import { timestampMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { readFilter, readTab, requestOf, spansOf } from "./filter";

const now = Date.parse("2026-05-08T12:00:00Z");

test("an address gives tab and filter", () => {
  expect(readTab({})).toBe("deployments");
  expect(readTab({ tab: "dora" })).toBe("dora");
  expect(readTab({ tab: "else" })).toBe("deployments");
  expect(readFilter({}, "deployments")).toEqual({ runtime: "", app: "", span: "month" });
  expect(readFilter({ runtime: "prod", app: " shop ", span: "week" }, "dora")).toEqual({
    runtime: "prod",
    app: "shop",
    span: "week",
  });
});

test("a span that a tab does not have is its usual one", () => {
  expect(readFilter({ span: "hour" }, "traffic").span).toBe("hour");
  expect(readFilter({ span: "hour" }, "deployments").span).toBe("month");
  expect(readFilter({ span: "year" }, "traffic").span).toBe("week");
  expect(spansOf("traffic").map(({ value }) => value)).toEqual(["hour", "day", "week", "month", "quarter"]);
});

test("a filter becomes a request", () => {
  const request = requestOf({ runtime: "prod", app: "argocd/shop", span: "week" }, now);
  expect({ ...request, since: timestampMs(request.since) }).toEqual({
    runtime: "prod",
    namespace: "argocd",
    name: "shop",
    since: Date.parse("2026-05-01T12:00:00Z"),
  });
  expect(requestOf({ runtime: "", app: "shop", span: "day" }, now)).toMatchObject({ namespace: "", name: "shop" });
});
