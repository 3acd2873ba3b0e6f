// Package store persists the state of the platform: accounts, users,
// second factors, sessions, API keys, the audit log, runtimes with their credentials and
// reported applications, the history of deployments, and which replica of the
// platform holds which tunnel.
//
// It is SQL behind typed methods, the same for SQLite (one replica with a
// file) and PostgreSQL (several replicas). It guarantees:
//
//   - A method that returns without an error has stored its change durably: neither a
//     killed process nor a power failure loses it.
//   - A method is one serializable transaction.
//   - Rows of an account are only found with the account's ID.
//   - Lists have bounded pages. Page tokens stay valid while rows are added and
//     removed.
//   - A full disk or an unreachable database results in ErrUnavailable, with advice;
//     reads continue where they can, and no restart is needed afterwards.
//   - Times are UTC with microsecond precision.
//
// It rejects a database of a newer program that does not allow this one, a file that another process has
// open, a damaged file, a damaged backup, and a restore into a non-empty
// database. It neither encrypts nor hashes: callers pass hashes of secrets,
// and keys that are already encrypted.
//
// Migrations only add what programs of the version before can ignore (decision
// 0079).
package store
