// Passkeys of the browser. Options and responses are JSON, which the platform
// writes and reads.

/** createPasskey creates a passkey and returns the response for the platform. */
export function createPasskey(options: string): Promise<string> {
  return respond(() =>
    navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(JSON.parse(options)) }),
  );
}

/** provePasskey signs a challenge with a passkey and returns the response for the platform. */
export function provePasskey(options: string): Promise<string> {
  return respond(() =>
    navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(JSON.parse(options)) }),
  );
}

// Browsers give no more than a name, so that pages do not learn which passkeys a
// device has.
const reasons: Record<string, string> = {
  NotAllowedError: "The browser gave no passkey: the request was cancelled, took too long, or no passkey fits.",
  InvalidStateError: "This device or security key has a passkey of yours already.",
  SecurityError: "The browser refuses passkeys at this address. Open the console at the URL of the platform.",
};

async function respond(request: () => Promise<Credential | null>): Promise<string> {
  if (!window.PublicKeyCredential?.parseCreationOptionsFromJSON) {
    throw new Error("This browser has no passkeys. Use a newer one, or another second factor.");
  }
  try {
    return JSON.stringify(await request());
  } catch (error) {
    throw new Error((error instanceof DOMException && reasons[error.name]) || String(error));
  }
}
