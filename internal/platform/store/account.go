package store

import (
	"context"
	"time"
)

// Account is a tenant of the platform.
type Account struct {
	ID        string // 24 hexadecimal digits
	Name      string
	CreatedAt time.Time
}

const accountColumns = "id, name, created_at"

func scanAccount(r row) (a Account, err error) {
	return a, r.Scan(&a.ID, &a.Name, timeColumn{&a.CreatedAt})
}

// CreateAccount stores an account and sets ID and time if they are empty.
func (s *Store) CreateAccount(ctx context.Context, account Account) (Account, error) {
	s.setDefaults(&account.ID, &account.CreatedAt)
	err := s.write(ctx, func(c *call) error {
		_, err := c.exec("INSERT INTO accounts ("+accountColumns+") VALUES ($1, $2, $3)",
			account.ID, account.Name, micros(account.CreatedAt))
		return orConflict(err, "an account with the ID %s", account.ID)
	})
	return account, err
}

// setDefaults sets the ID and time of a new row if they are empty.
func (s *Store) setDefaults(id *string, at *time.Time) {
	if *id == "" {
		*id = newID()
	}
	if at.IsZero() {
		*at = s.timestamp()
	}
	// The returned object must equal the one that is read back.
	*at = at.UTC().Truncate(time.Microsecond)
}

// Account returns an account.
func (s *Store) Account(ctx context.Context, id string) (Account, error) {
	return readOne(ctx, s, scanAccount, "SELECT "+accountColumns+" FROM accounts WHERE id = $1", id)
}

// maxAccounts bounds a list without pages. A platform has few tenants.
const maxAccounts = 10_000

// Accounts returns all accounts, the oldest first.
func (s *Store) Accounts(ctx context.Context) ([]Account, error) {
	return readAll(ctx, s, scanAccount, "SELECT "+accountColumns+" FROM accounts ORDER BY created_at, id LIMIT $1", maxAccounts)
}

// UpdateAccount changes the name of an account.
func (s *Store) UpdateAccount(ctx context.Context, account Account) error {
	return orNotFound(s.exec(ctx, "UPDATE accounts SET name = $1 WHERE id = $2", account.Name, account.ID))
}
