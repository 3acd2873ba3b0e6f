import { describe, expect, it } from "vitest";
import {
  cliCommand,
  helmCommand,
  type InstallChoice,
  preflightCommand,
  shellWord,
  terraformText,
} from "./install-command";
import cases from "./install-command.cases.json";

// The same file is read by a test of the program, which prints these texts too.
describe.each(cases)("$choice.mode of $choice.name", ({ choice, slipway, preflight, helm, terraform }) => {
  const given = choice as InstallChoice;
  it("is as the program prints it", () => {
    expect(helmCommand(given)).toBe(helm);
    expect(terraformText(given)).toBe(terraform);
    expect(cliCommand(given)).toBe(slipway);
    expect(preflightCommand(given)).toBe(preflight);
  });
});

const dollar = "$";
const hostile = {
  ...(cases[1]?.choice as InstallChoice),
  hosts: ["a'; rm -rf ~ #.example.com"],
  ingressClass: `x"${dollar}{file(1)},y=2\\`,
};

describe("quoting", () => {
  it("leaves plain words and quotes all others", () => {
    expect(shellWord("a-b.c/d:e=f@g%h+i,j")).toBe("a-b.c/d:e=f@g%h+i,j");
    expect(shellWord("")).toBe("''");
    expect(shellWord("it's")).toBe("'it'\\''s'");
    expect(shellWord("$(x) `y` ; z")).toBe("'$(x) `y` ; z'");
  });

  it("keeps what was typed one word of the shell", () => {
    const line = helmCommand(hostile)
      .split(" \\\n")
      .find((each) => each.includes("hosts[0]"));
    expect(line).toBe("  --set-string 'global.runtime.ingress.hosts[0]=a'\\''; rm -rf ~ #.example.com'");
  });

  it("keeps what was typed one value of Helm and Terraform", () => {
    expect(helmCommand(hostile)).toContain(`className=x"${dollar}{file(1)}\\,y=2\\\\'`);
    expect(terraformText(hostile)).toContain(`value = "x\\"${dollar}${dollar}{file(1)}\\\\,y=2\\\\\\\\"`);
  });
});

it("permits a platform without TLS, and only that", () => {
  const plain = { ...(cases[0]?.choice as InstallChoice), platformURL: "http://localhost:8093" };
  for (const text of [helmCommand(plain), cliCommand(plain), terraformText(plain)]) expect(text).toContain("allowHTTP");
  expect(helmCommand({ ...plain, platformURL: "https://slipway.example.com" })).not.toContain("allowHTTP");
});
