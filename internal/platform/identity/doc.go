// Package identity says who calls the platform and what they may do. It has the
// passwords, sessions, API keys, sign-ins through an identity provider and the
// audit log, and serves AuthService, AccountService, KeyService and AuditService.
//
// It promises:
//   - A procedure that has no row in internal/wire/permission is refused to all.
//   - Callers are known before a message of theirs is parsed (HandlerOptions).
//   - What a session, a key or a runtime may do ends within five seconds of its end,
//     also for streams that are open.
//   - Passwords are kept as argon2id, secrets of sessions and keys as SHA-256. None
//     of them is in an error, a log or the audit log.
//   - An unknown name costs as much time as a wrong password.
//   - What an admin changes is in the audit log before it is done; when it cannot be
//     written there, it is not done. Other changes are written afterwards, and the
//     call fails when that fails. Denied calls are written as well as can be.
//
// It refuses cookies on requests of other origins, requests with a cookie that lack
// the CSRF token, and sign-ins that come too often.
package identity
