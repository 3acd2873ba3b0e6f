package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/wire/permission"
)

// Role is the set of permissions of a user in an account.
type Role string

// Roles; each includes those before it.
const (
	RoleRestricted Role = permission.RoleRestricted
	RoleViewer     Role = permission.RoleViewer
	RoleOperator   Role = permission.RoleOperator
	RoleAdmin      Role = permission.RoleAdmin
)

// User is a user of an account. An email is unique in the platform,
// regardless of case.
type User struct {
	ID, AccountID, Email, Name string
	Role                       Role
	PasswordHash               string // encoded argon2id; empty without password
	MustChangePassword         bool
	Disabled                   bool
	// Subject identifies the user at the identity provider, as "issuer|sub".
	// It is empty for users with a password.
	Subject string
	// Groups are those that the identity provider asserted at the last
	// sign-in.
	Groups                  []string
	CreatedAt, LastSignInAt time.Time
	// SecondFactor is set if the user has a factor; it is not written with the
	// user.
	SecondFactor bool
}

// isAdmin reports whether the user can administer the account now.
func (u User) isAdmin() bool { return u.Role == RoleAdmin && !u.Disabled }

const userColumns = `id, account_id, email, name, role, password_hash, must_change_password, disabled, subject, group_names, created_at, last_sign_in_at`

// selectUsers is the beginning of a query for scanUser.
const selectUsers = "SELECT " + userColumns + ", EXISTS (SELECT 1 FROM second_factors WHERE user_id = users.id) FROM users"

// scanUser scans the columns of selectUsers.
func scanUser(r row) (u User, err error) {
	return u, r.Scan(&u.ID, &u.AccountID, &u.Email, &u.Name, &u.Role, &u.PasswordHash, &u.MustChangePassword, &u.Disabled,
		&u.Subject, jsonColumn{&u.Groups}, timeColumn{&u.CreatedAt}, timeColumn{&u.LastSignInAt}, &u.SecondFactor)
}

// CreateUser stores a user and sets ID and time if they are empty.
func (s *Store) CreateUser(ctx context.Context, user User) (User, error) {
	if err := checkUser(user); err != nil {
		return User{}, err
	}
	s.setDefaults(&user.ID, &user.CreatedAt)
	err := s.write(ctx, func(c *call) error {
		_, err := c.exec(`INSERT INTO users (`+userColumns+`, email_folded) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
			user.ID, user.AccountID, user.Email, user.Name, string(user.Role), user.PasswordHash, user.MustChangePassword, user.Disabled,
			user.Subject, groupsText(user), micros(user.CreatedAt), micros(user.LastSignInAt), foldEmail(user.Email))
		return userConflict(err, user)
	})
	return user, err
}

// checkUser validates the fields that callers set.
func checkUser(user User) error {
	if strings.TrimSpace(user.Email) == "" {
		return invalid("a user needs an email")
	}
	if !slices.Contains(permission.Roles(), string(user.Role)) {
		return invalid("the role %q does not exist", user.Role)
	}
	return nil
}

// groupsText returns the stored form of a user's groups: never null.
func groupsText(user User) string {
	if user.Groups == nil {
		return "[]"
	}
	return jsonText(user.Groups)
}

// userConflict names the two unique keys of a user; the error does not show
// which one is violated.
func userConflict(err error, user User) error {
	return orConflict(err, "a user with the email %s, or with the same identity", user.Email)
}

// User returns a user of an account.
func (s *Store) User(ctx context.Context, accountID, id string) (User, error) {
	return s.user(ctx, "account_id = $1 AND id = $2", accountID, id)
}

// UserByEmail returns a user by email, regardless of case.
func (s *Store) UserByEmail(ctx context.Context, email string) (User, error) {
	return s.user(ctx, "email_folded = $1", foldEmail(email))
}

// UserBySubject returns a user by the subject of the identity provider.
func (s *Store) UserBySubject(ctx context.Context, subject string) (User, error) {
	if subject == "" {
		return User{}, ErrNotFound // users with a password have an empty subject
	}
	return s.user(ctx, "subject = $1 AND subject <> ''", subject)
}

// user returns the user that matches a condition.
func (s *Store) user(ctx context.Context, where string, args ...any) (User, error) {
	return readOne(ctx, s, scanUser, selectUsers+" WHERE "+where, args...)
}

// Users lists the users of an account by email.
func (s *Store) Users(ctx context.Context, accountID string, page Page) (users []User, next string, err error) {
	list := newListID("users", accountID)
	after, err := list.after(page.Token, 1)
	if err != nil {
		return nil, "", err
	}
	var where condition
	where.add("account_id = ?", accountID)
	if after != nil {
		where.add("email_folded > ?", after[0])
	}
	query := page.query(selectUsers, where, "email_folded")
	return readPage(ctx, s, query, scanUser, func(last User) string { return list.token(foldEmail(last.Email)) })
}

// Ending selects the credentials of a user that end with a change. A later
// value includes the earlier ones.
type Ending int

// Values of Ending.
const (
	EndNothing Ending = iota
	EndSessions
	// EndOwnKeys also revokes the keys that the user created. Keys of the
	// operator remain: access to the platform's machine created them, not the
	// user's password.
	EndOwnKeys
	EndAllKeys
)

// ChangeUser applies a change to the stored user and ends credentials, in one
// transaction: replicas that change other fields at the same time lose
// nothing, because the callback runs again on the row that the other one
// stored. It must be fast and may not change ID, account and creation time.
// ErrLastAdmin is returned if the account would have no admin left.
func (s *Store) ChangeUser(ctx context.Context, accountID, id string, change func(*User) (Ending, error)) (user User, err error) {
	err = s.write(ctx, func(c *call) error {
		user, err = changeUser(c, accountID, id, change)
		return err
	})
	return user, err
}

// changeUser is ChangeUser in a transaction.
func changeUser(c *call, accountID, id string, change func(*User) (Ending, error)) (User, error) {
	before, err := queryOne(c, scanUser, selectUsers+" WHERE account_id = $1 AND id = $2", accountID, id)
	if err != nil {
		return User{}, err
	}
	user := before
	ending, err := change(&user)
	if err != nil {
		return User{}, err
	}
	if err := checkUser(user); err != nil {
		return User{}, err
	}
	// Losing the role and being disabled both count as losing an admin.
	if before.isAdmin() && !user.isAdmin() {
		if err := otherAdmin(c, before); err != nil {
			return User{}, err
		}
	}
	_, err = c.exec(`UPDATE users SET email = $1, email_folded = $2, name = $3, role = $4, password_hash = $5,
		must_change_password = $6, disabled = $7, subject = $8, last_sign_in_at = $9, group_names = $10 WHERE account_id = $11 AND id = $12`,
		user.Email, foldEmail(user.Email), user.Name, string(user.Role), user.PasswordHash,
		user.MustChangePassword, user.Disabled, user.Subject, micros(user.LastSignInAt), groupsText(user), accountID, id)
	if err != nil {
		return User{}, userConflict(err, user)
	}
	return user, endCredentials(c, id, ending)
}

// endCredentials deletes the sessions and revokes the keys of a user. The keys
// that descend from one belong to the same user, so none is left out.
func endCredentials(c *call, userID string, ending Ending) error {
	if ending >= EndSessions {
		if _, err := c.exec("DELETE FROM sessions WHERE user_id = $1", userID); err != nil {
			return err
		}
	}
	if ending < EndOwnKeys {
		return nil
	}
	spared := "%" + jsonText(OperatorScope) + "%"
	if ending == EndAllKeys {
		spared = ""
	}
	_, err := c.exec("UPDATE api_keys SET revoked_at = $1 WHERE user_id = $2 AND revoked_at = 0 AND scopes NOT LIKE $3", micros(c.now), userID, spared)
	return err
}

// otherAdmin returns ErrLastAdmin unless the account has another active
// admin. It runs in the transaction of the change: two admins cannot demote
// each other concurrently.
func otherAdmin(c *call, user User) error {
	others, err := queryOne(c, scanNumber, "SELECT count(*) FROM users WHERE account_id = $1 AND id <> $2 AND role = $3 AND NOT disabled",
		user.AccountID, user.ID, string(RoleAdmin))
	if err == nil && others == 0 {
		err = ErrLastAdmin
	}
	return err
}

// DeleteUser deletes a user with their sessions and keys. It returns
// ErrLastAdmin for the last admin of an account.
func (s *Store) DeleteUser(ctx context.Context, accountID, id string) error {
	return s.write(ctx, func(c *call) error {
		user, err := queryOne(c, scanUser, selectUsers+" WHERE account_id = $1 AND id = $2", accountID, id)
		if err != nil {
			return err
		}
		if user.isAdmin() {
			if err := otherAdmin(c, user); err != nil {
				return err
			}
		}
		return orNotFound(c.exec("DELETE FROM users WHERE account_id = $1 AND id = $2", accountID, id))
	})
}
