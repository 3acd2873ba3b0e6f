// Package identity authenticates and authorizes the callers of the platform.
// It implements passwords, sessions, API keys, sign-in through an OpenID
// provider and the audit log, and serves AuthService, AccountService,
// KeyService and AuditService.
//
// It guarantees:
//
//   - A procedure without a row in internal/wire/permission is denied to
//     everyone.
//   - Callers are authenticated before their message is parsed
//     (HandlerOptions).
//   - The end of a session, key or runtime credential takes effect within five
//     seconds, also for open streams.
//   - Passwords are stored as argon2id, secrets of sessions and keys as
//     SHA-256. None of them appears in an error, a log or the audit log.
//   - An unknown name takes as long as a wrong password.
//   - A change by an admin is written to the audit log before it is made; if
//     that fails, the change is not made. Other changes are written afterwards,
//     and the call fails if that fails. Denied calls are written on a
//     best-effort basis.
//   - A password alone opens no session of a user with a second factor, and no
//     proof of a second factor is accepted twice (decision 0035).
//   - Strangers' wrong passwords keep neither other accounts nor known devices
//     of the same account out.
//
// It rejects cookies on cross-origin requests, requests with a cookie but
// without the CSRF token, and sign-ins above the rate limit.
package identity
