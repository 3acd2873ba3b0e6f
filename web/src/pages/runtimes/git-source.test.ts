import { expect, it } from "vitest";
import { sourceProblem, webAddress } from "./git-source";

it("accepts repositories, and no credentials", () => {
  const at = (repoUrl: string) => sourceProblem({ name: "apps", repoUrl });
  expect(at("https://github.com/acme/apps.git")).toBe("");
  expect(at("git@github.com:acme/apps.git")).toBe("");
  expect(at("ssh://git@host:7999/acme/apps.git")).toBe("");
  expect(at("https://token@github.com/acme/apps.git")).toMatch("Remove the user");
  for (const bad of ["", "apps", "file:///srv/apps", "https://github.com", "javascript:alert(1)"]) {
    expect(at(bad)).not.toBe("");
  }
  expect(sourceProblem({ name: "Apps", repoUrl: "https://github.com/acme/apps.git" })).not.toBe("");
});

it("links to pages only", () => {
  expect(webAddress("https://github.com/acme/apps.git")).toBe("https://github.com/acme/apps");
  expect(webAddress("git@github.com:acme/apps.git")).toBe("https://github.com/acme/apps");
  expect(webAddress("ssh://git@host:7999/acme/apps.git")).toBe("https://host/acme/apps");
  expect(webAddress("https://user:secret@host/a.git")).toBe("https://host/a");
  expect(webAddress("javascript:alert(1)")).toBeNull();
  expect(webAddress("nonsense")).toBeNull();
});
