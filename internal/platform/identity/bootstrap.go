package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
)

// Bootstrap makes the first account and its admin when nobody can sign in yet, and
// gives the one-time password. It does nothing when there are users. Of replicas
// that start at the same time, one makes them.
func Bootstrap(ctx context.Context, database *store.Store, account, email string) (password secret.Text, created bool, err error) {
	email, err = checkEmail(email)
	if err != nil {
		return secret.Text{}, false, fmt.Errorf("the first admin: %w", err)
	}
	if account, err = checkName("the account", account); err != nil {
		return secret.Text{}, false, err
	}
	first, ready, err := firstAccount(ctx, database, account, email)
	if err != nil || ready {
		return secret.Text{}, false, err
	}
	passwords, err := newHasher(ctx)
	if err != nil {
		return secret.Text{}, false, err
	}
	once := oneTimePassword()
	hash, err := passwords.hash(ctx, once)
	if err != nil {
		return secret.Text{}, false, err
	}
	_, err = database.CreateUser(ctx, store.User{
		AccountID: first.ID, Email: email, Name: orElse("", email), Role: store.RoleAdmin,
		PasswordHash: hash, MustChangePassword: true,
	})
	var conflict *store.ConflictError
	if errors.As(err, &conflict) {
		return secret.Text{}, false, nil
	}
	if err != nil {
		return secret.Text{}, false, fmt.Errorf("make the first admin: %w", err)
	}
	return once, true, nil
}

// firstAccount finds or makes the account of the first admin. It is ready when some
// account has a user. The ID follows from the names, so that two replicas that start
// at the same time make one account.
func firstAccount(ctx context.Context, database *store.Store, name, email string) (first store.Account, ready bool, err error) {
	accounts, err := database.Accounts(ctx)
	if err != nil {
		return store.Account{}, false, fmt.Errorf("look for accounts: %w", err)
	}
	for _, account := range accounts {
		users, _, err := database.Users(ctx, account.ID, store.Page{Size: 1})
		if err != nil || len(users) > 0 {
			return store.Account{}, true, err
		}
	}
	if len(accounts) > 0 {
		return accounts[0], false, nil
	}
	sum := sha256.Sum256([]byte("slipway first account\n" + name + "\n" + email))
	wanted := store.Account{ID: hex.EncodeToString(sum[:12]), Name: name}
	first, err = database.CreateAccount(ctx, wanted)
	var conflict *store.ConflictError
	if errors.As(err, &conflict) {
		return wanted, false, nil
	}
	if err != nil {
		return store.Account{}, false, fmt.Errorf("make the first account: %w", err)
	}
	return first, false, nil
}

// ResetPassword gives a user a one-time password, for an operator at the platform's
// machine when no admin can sign in any more.
func ResetPassword(ctx context.Context, database *store.Store, email string) (secret.Text, error) {
	user, err := database.UserByEmail(ctx, email)
	if errors.Is(err, store.ErrNotFound) {
		return secret.Text{}, fmt.Errorf("there is no user with the email %s", clean(email))
	}
	if err != nil {
		return secret.Text{}, err
	}
	if user.Subject != "" {
		return secret.Text{}, fmt.Errorf("%s signs in through the identity provider and has no password here", user.Email)
	}
	passwords, err := newHasher(ctx)
	if err != nil {
		return secret.Text{}, err
	}
	return resetPassword(ctx, &people{store: database}, passwords, user)
}

func resetPassword(ctx context.Context, all *people, passwords *hasher, user store.User) (secret.Text, error) {
	once := oneTimePassword()
	hash, err := passwords.hash(ctx, once)
	if err != nil {
		return secret.Text{}, err
	}
	_, err = all.change(ctx, user.AccountID, user.ID, func(now *store.User) error {
		now.PasswordHash, now.MustChangePassword = hash, true
		return nil
	})
	if err != nil {
		return secret.Text{}, err
	}
	return once, all.store.DeleteSessionsOf(ctx, user.ID, nil)
}

// How long things are kept.
const (
	housekeepEvery = time.Hour
	// auditLife is how long entries of the audit log are kept.
	auditLife = 400 * 24 * time.Hour
)

// Run removes what has expired, until the context ends.
func (i *Identity) Run(ctx context.Context) error {
	ticker := time.NewTicker(housekeepEvery)
	defer ticker.Stop()
	for {
		if _, err := i.store.ExpireSessions(ctx); err != nil && ctx.Err() == nil {
			i.log.Warn("Sessions that have expired could not be removed", "err", err)
		}
		if _, err := i.store.ExpireAudit(ctx, i.now().Add(-auditLife)); err != nil && ctx.Err() == nil {
			i.log.Warn("Old entries of the audit log could not be removed", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
