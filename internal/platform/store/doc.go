// Package store keeps what the platform knows: accounts, users, sessions, API keys,
// the audit log, runtimes with their credentials, what they report of their
// applications, and which replica of the platform holds which tunnel.
//
// It is SQL behind typed methods, the same for SQLite (one platform with a file)
// and for PostgreSQL (several replicas). It promises:
//
//   - A method that answers without an error has stored its change for good: a
//     killed process or a machine without power does not lose it.
//   - A method is one transaction, as if it had run alone.
//   - What belongs to an account is only found with the account's ID.
//   - Lists have bounded pages. Their tokens stay good while rows come and go.
//   - A full disk or a database that is away is ErrUnavailable, with what to do;
//     reads go on where they can, and nothing has to be restarted afterwards.
//   - Times are UTC and have microseconds.
//
// It refuses a database of a newer program, a file that another platform has open,
// a damaged file, and a backup that is damaged or would be written over something.
// It does not encrypt and it does not hash: whoever calls gives it hashes of
// secrets, and keys that are already encrypted.
package store
