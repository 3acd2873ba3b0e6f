import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ReleaseTrafficSchema } from "../../api/gen/slipway/runtime/v1/release_pb";
import { actionText, errorWord, latencyWord, phaseTone, sharesWord, totalWeight, weightWord } from "./release";

test("numbers of a revision", () => {
  expect(errorWord(undefined)).toBe("–");
  expect(errorWord(create(ReleaseTrafficSchema, {}))).toBe("–");
  expect(errorWord(create(ReleaseTrafficSchema, { requests: 203n, errors: 8n }))).toBe("3.9 % (8)");
  expect(latencyWord(0n)).toBe("–");
  expect(latencyWord(900n)).toBe("900 µs");
  expect(latencyWord(12_345n)).toBe("12.3 ms");
  expect(latencyWord(3_000_000n)).toBe("3.00 s");
  expect(weightWord(undefined, 100)).toBe("–");
  expect(weightWord(0, 100)).toBe("0 %");
  expect(weightWord(200, 1000)).toBe("200/1000");
  expect(totalWeight([{ weight: 800 }, { weight: 200 }, {}])).toBe(1000);
  expect(totalWeight([{}])).toBe(100);
  expect(sharesWord([{ name: "stable", weight: 80 }, { name: "canary", weight: 20 }, { name: "" }])).toBe(
    "stable 80 %, canary 20 %",
  );
});

test("words of phases and actions", () => {
  expect(phaseTone("RolledBack")).toBe("bad");
  expect(phaseTone("New")).toBe("off");
  expect(actionText("promote-full").label).toBe("Promote fully");
  expect(actionText("new").label).toBe("new");
});
