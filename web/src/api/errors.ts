import { Code, ConnectError } from "@connectrpc/connect";

/** explain returns the message of an error, as the platform sent it. */
export function explain(error: unknown): string {
  const failure = ConnectError.from(error);
  switch (failure.code) {
    case Code.Unavailable:
      return failure.rawMessage || "Not reachable. Retrying.";
    case Code.Unknown:
      // The message of fetch when there is no response.
      return failure.rawMessage === "Failed to fetch" ? "The platform cannot be reached." : failure.rawMessage;
    default:
      return failure.rawMessage || Code[failure.code];
  }
}

/** isDenied is true when the user may not do this. */
export function isDenied(error: unknown): boolean {
  return ConnectError.from(error).code === Code.PermissionDenied;
}

/** isMissing is true when there is no such thing. */
export function isMissing(error: unknown): boolean {
  return ConnectError.from(error).code === Code.NotFound;
}

/** isPassing is true when trying again may help. */
export function isPassing(error: unknown): boolean {
  const code = ConnectError.from(error).code;
  return code === Code.Unavailable || code === Code.Unknown || code === Code.DeadlineExceeded || code === Code.Aborted;
}
