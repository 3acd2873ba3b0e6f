import { describe, expect, it } from "vitest";
import {
  accessProblems,
  emptyDraft,
  inferProvider,
  installChoice,
  isComplete,
  labelProblem,
  nameProblem,
  readDraft,
  repositoryProblem,
} from "./draft";

it("reads what was stored, and only that which it knows", () => {
  const stored = JSON.stringify({ ...emptyDraft, name: "prod", mode: "mesh", secret: "slw_x", release: 7 });
  expect(readDraft(stored)).toEqual({ ...emptyDraft, name: "prod", mode: "mesh" });
  expect(readDraft(JSON.stringify({ mode: "teleport" })).mode).toBe("tunnel");
  for (const broken of [null, "", "{", "7", "null"]) expect(readDraft(broken)).toEqual(emptyDraft);
});

describe("names", () => {
  it("are 38 characters at most", () => {
    expect(nameProblem("a".repeat(38))).toBe("");
    expect(nameProblem("a".repeat(39))).toMatch("38");
  });
  it("begin with a letter", () => {
    for (const bad of ["", "1a", "-a", "a-", "A", "a_b", "a.b"]) expect(nameProblem(bad)).not.toBe("");
    for (const good of ["a", "a1", "a-b-1"]) expect(nameProblem(good)).toBe("");
  });
  it("of namespaces may begin with a digit", () => {
    expect(labelProblem("namespace", "1a")).toBe("");
    expect(labelProblem("namespace", "a.b")).not.toBe("");
  });
});

describe("access", () => {
  const wrong = (part: Partial<typeof emptyDraft>) =>
    Object.entries(accessProblems({ ...emptyDraft, ...part }))
      .filter(([, problem]) => problem !== "")
      .map(([field]) => field);
  it("of a tunnel needs nothing", () => expect(wrong({ mode: "tunnel" })).toEqual([]));
  it("of an Ingress needs a host and a class", () => {
    expect(wrong({ mode: "ingress" })).toEqual(["host", "ingressClass"]);
    expect(wrong({ mode: "ingress", host: "https://a.example.com", ingressClass: "nginx" })).toEqual(["host"]);
    for (const host of ["a.example.com", "10.0.0.1", "localhost:8443", "[::1]"]) {
      expect(wrong({ mode: "ingress", host, ingressClass: "nginx" })).toEqual([]);
    }
  });
  it("of an HTTPRoute needs a Gateway", () => {
    expect(wrong({ mode: "http-route", host: "a.example.com", gateway: "a/b/c" })).toEqual(["gateway"]);
    expect(wrong({ mode: "http-route", host: "a.example.com", gateway: "infra/public" })).toEqual([]);
  });
  it("of a mesh needs a URL", () => {
    expect(wrong({ mode: "mesh", ingressURL: "prod.example.com" })).toEqual(["url"]);
    expect(wrong({ mode: "mesh", ingressURL: "https://u:p@prod.example.com" })).toEqual(["url"]);
    expect(wrong({ mode: "mesh", ingressURL: "https://prod.example.com" })).toEqual([]);
    expect(isComplete({ ...emptyDraft, mode: "mesh", ingressURL: "https://prod.example.com" })).toBe(true);
  });
});

it("leaves hosts of another mode out of the command", () => {
  expect(installChoice({ ...emptyDraft, host: "a.example.com" }, "https://p", "acc").hosts).toEqual([]);
});

describe("the shared repository", () => {
  it.each([
    "https://github.com/acme/config.git",
    "https://github.com/acme/config.git/teams/blue?ref=release/1.2",
    "ssh://git@git.example.com:7999/acme/config.git/x",
    "git@github.com:acme/config.git/x?ref=main",
  ])("may be %s", (text) => expect(repositoryProblem(text)).toBe(""));
  it.each(["", "config", "/srv/config.git", "ftp://host/a.git", "https://host", "https://t@host/a.git"])(
    "may not be %s",
    (text) => expect(repositoryProblem(text)).not.toBe(""),
  );
  it("has nothing but a branch after the question mark", () => {
    expect(repositoryProblem("https://host/a.git?branch=x")).toMatch("ref=<branch>");
    expect(repositoryProblem("https://host/a.git?ref=a&x=b")).toMatch("ref=<branch>");
  });
  it("tells the provider", () => {
    expect(inferProvider("git@github.com:acme/config.git").provider).toBe("github");
    expect(inferProvider("https://gitlab.example.com/a/b.git")).toEqual({
      provider: "gitlab",
      apiURL: "https://gitlab.example.com/api/v4",
    });
    expect(inferProvider("https://git.example.com/a/b.git").provider).toBe("");
  });
});
