import type { ResourceAction } from "../../api/gen/slipway/runtime/v1/application_pb";

/** labelOf is the name of an action for people. Actions without one have words in them: scale-up is Scale up. */
export function labelOf(action: Pick<ResourceAction, "name" | "displayName">): string {
  if (action.displayName) return action.displayName;
  const words = action.name.replaceAll("-", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
