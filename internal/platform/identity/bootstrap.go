package identity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
)

// Bootstrap creates the first account and its admin if there are no users
// yet, and returns the one-time password; without passwords it is empty, and
// the admin signs in through the identity provider with this email. Of replicas
// that start together, exactly one creates them.
func Bootstrap(ctx context.Context, database *store.Store, account, email string, policy SignInPolicy) (password secret.Text, created bool, err error) {
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
	admin := store.User{AccountID: first.ID, Email: email, Name: orElse("", email), Role: store.RoleAdmin}
	// The password exists only in memory and in the caller's output.
	var once secret.Text
	if !policy.PasswordsDisabled {
		passwords, err := newHasher(ctx)
		if err != nil {
			return secret.Text{}, false, err
		}
		once, admin.MustChangePassword = oneTimePassword(), true
		if admin.PasswordHash, err = passwords.hash(ctx, once); err != nil {
			return secret.Text{}, false, err
		}
	}
	_, err = database.CreateUser(ctx, admin)
	// Another replica created the admin first and prints the password.
	if _, ok := errors.AsType[*store.ConflictError](err); ok {
		return secret.Text{}, false, nil
	}
	if err != nil {
		return secret.Text{}, false, fmt.Errorf("create first admin: %w", err)
	}
	return once, true, nil
}

// firstAccount returns or creates the account of the first admin. ready is
// set when an account has a user. The ID is derived from the names, so that
// replicas that start together create one account.
func firstAccount(ctx context.Context, database *store.Store, name, email string) (first store.Account, ready bool, err error) {
	accounts, err := database.Accounts(ctx)
	if err != nil {
		return store.Account{}, false, fmt.Errorf("list accounts: %w", err)
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
	// A replica with other settings would create another account; the
	// configuration of replicas must agree.
	sum := sha256.Sum256([]byte("slipway first account\n" + name + "\n" + email))
	wanted := store.Account{ID: hex.EncodeToString(sum[:12]), Name: name}
	first, err = database.CreateAccount(ctx, wanted)
	if _, ok := errors.AsType[*store.ConflictError](err); ok {
		return wanted, false, nil
	}
	if err != nil {
		return store.Account{}, false, fmt.Errorf("create first account: %w", err)
	}
	return first, false, nil
}

// ResetPassword sets a one-time password for a user. It is for an operator on
// the platform's machine when no admin can sign in.
func (s System) ResetPassword(ctx context.Context, email string) (secret.Text, error) {
	user, err := s.Store.UserByEmail(ctx, email)
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
	var once secret.Text
	err = s.Run(ctx, Event{Action: "account.reset-password", Target: "user/" + user.Email}, func() (err error) {
		once, err = resetPassword(ctx, s.Store, passwords, user)
		return err
	}, user.AccountID)
	return once, err
}

// resetPassword stores the hash of a new one-time password and ends all
// sessions and the keys that the user created: the reset may follow a theft of
// the old password.
func resetPassword(ctx context.Context, database *store.Store, passwords *hasher, user store.User) (secret.Text, error) {
	once := oneTimePassword()
	hash, err := passwords.hash(ctx, once)
	if err != nil {
		return secret.Text{}, err
	}
	_, err = database.ChangeUser(ctx, user.AccountID, user.ID, func(now *store.User) (store.Ending, error) {
		now.PasswordHash, now.MustChangePassword = hash, true
		return store.EndOwnKeys, nil
	})
	if err != nil {
		return secret.Text{}, err
	}
	return once, nil
}
