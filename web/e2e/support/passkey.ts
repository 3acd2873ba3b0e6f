// A security key of the browser: Chrome's virtual authenticator.

import type { CDPSession, Page } from "@playwright/test";

type Credential = Awaited<ReturnType<SecurityKey["credentials"]>>[number];

/** SecurityKey is plugged into one page. */
export class SecurityKey {
  private constructor(
    private readonly chrome: CDPSession,
    private readonly authenticatorId: string,
  ) {}

  /** plugIn gives a page a security key, which its user touches whenever it blinks. */
  static async plugIn(page: Page): Promise<SecurityKey> {
    const chrome = await page.context().newCDPSession(page);
    await chrome.send("WebAuthn.enable");
    const { authenticatorId } = await chrome.send("WebAuthn.addVirtualAuthenticator", {
      options: { protocol: "ctap2", transport: "usb", automaticPresenceSimulation: true },
    });
    return new SecurityKey(chrome, authenticatorId);
  }

  /** credentials is what is on the key. */
  async credentials() {
    const { authenticatorId } = this;
    return (await this.chrome.send("WebAuthn.getCredentials", { authenticatorId })).credentials;
  }

  /** put copies a passkey to the key, with the counter that it has. */
  async put(credential: Credential): Promise<void> {
    const { authenticatorId } = this;
    await this.chrome.send("WebAuthn.addCredential", { authenticatorId, credential });
  }

  async unplug(): Promise<void> {
    const { authenticatorId } = this;
    await this.chrome.send("WebAuthn.removeVirtualAuthenticator", { authenticatorId });
  }
}
