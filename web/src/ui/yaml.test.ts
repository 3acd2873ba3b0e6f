import { expect, test } from "vitest";
import { toYAML } from "./yaml";

test("an object of Kubernetes comes in the order in which people read it", () => {
  const text = toYAML({
    status: { ready: true },
    spec: { replicas: 2, ports: [{ port: 80, name: "http" }, 8080], empty: {}, none: [] },
    kind: "Service",
    apiVersion: "v1",
    metadata: { name: "web", labels: { "app.kubernetes.io/name": "web" } },
  });
  expect(text).toBe(`apiVersion: v1
kind: Service
metadata:
  name: web
  labels:
    app.kubernetes.io/name: web
spec:
  replicas: 2
  ports:
  - port: 80
    name: http
  - 8080
  empty: {}
  none: []
status:
  ready: true
`);
});

test.each([
  ["true", '"true"'],
  ["No", '"No"'],
  ["null", '"null"'],
  ["1.20", '"1.20"'],
  ["0x1f", '"0x1f"'],
  ["2026-01-02", '"2026-01-02"'],
  ["12e4", '"12e4"'],
  ["", '""'],
  ["- a", '"- a"'],
  ["a: b", '"a: b"'],
  ["a #b", '"a #b"'],
  ["ends:", '"ends:"'],
  ["*anchor", '"*anchor"'],
  ["{{ .Values }}", '"{{ .Values }}"'],
  ["tab\there", '"tab\\there"'],
  ["\u0085", '"\\u0085"'],
  [" lead", '" lead"'],
  ["nginx:1.27", "nginx:1.27"],
  ["https://example.com/a?b=c", "https://example.com/a?b=c"],
  ["plain words here", "plain words here"],
])("text %j is printed so that it stays text", (value, want) => {
  expect(toYAML({ key: value })).toBe(`key: ${want}\n`);
});

test("text of several lines is a block that keeps its end", () => {
  expect(toYAML({ a: "one\n  two\n", b: "one\ntwo", c: "one\n\n\n", d: " one\ntwo" })).toBe(
    'a: |\n  one\n    two\nb: |-\n  one\n  two\nc: |+\n  one\n\n\nd: " one\\ntwo"\n',
  );
});

test("lists in lists, and a block in a list", () => {
  expect(toYAML([["a", "b"], { run: "x\ny\n" }, null])).toBe("- - a\n  - b\n- run: |\n    x\n    y\n- null\n");
});
